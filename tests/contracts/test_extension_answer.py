"""What a processor of a pipeline may answer."""

import orjson
import pytest

from router.contracts.decision import RESERVED_TYPES
from router.contracts.extension import InvalidExtensionMessage, read_processor_answer
from router.core.ids import MAX_TYPE


def answer(message_type: str | None) -> bytes:
    return orjson.dumps({"payload": {"payload": "hello", "message_type": message_type}})


@pytest.mark.parametrize("message_type", [None, "", "chat", "x" * MAX_TYPE])
def test_a_type_is_what_a_requests_may_be_or_absent(message_type: str | None) -> None:
    assert read_processor_answer(answer(message_type)).message.message_type == message_type


@pytest.mark.parametrize("message_type", [*sorted(RESERVED_TYPES), "x" * (MAX_TYPE + 1)])
def test_a_type_that_no_request_may_have_is_no_answer(message_type: str) -> None:
    with pytest.raises(InvalidExtensionMessage, match="message_type"):
        read_processor_answer(answer(message_type))
