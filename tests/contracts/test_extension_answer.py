"""What an extension may answer."""

from collections.abc import Callable

import orjson
import pytest

from router.contracts.decision import RESERVED_TYPES
from router.contracts.extension import (
    RETRY_AFTER,
    InvalidExtensionMessage,
    read_processor_answer,
    read_retry_after,
    read_validator_answer,
)
from router.core.ids import MAX_TYPE


def answer(message_type: str | None) -> bytes:
    return orjson.dumps({"payload": {"payload": "hello", "message_type": message_type}})


@pytest.mark.parametrize("message_type", [None, "", "chat", "x" * MAX_TYPE])
def test_a_type_is_what_a_requests_may_be_or_absent(message_type: str | None) -> None:
    assert read_processor_answer(answer(message_type)).message.message_type == message_type


@pytest.mark.parametrize(
    ("text", "waits_ms"),
    [("1", 1), ("9" * 12, 10**12 - 1), ("9" * 13, None), ("0", None), ("", None), ("-1", None)],
)
def test_a_pause_that_a_service_asks_for_is_believed_where_it_is_a_number(
    text: str, waits_ms: int | None
) -> None:
    assert read_retry_after({RETRY_AFTER: text}) == waits_ms


@pytest.mark.parametrize(
    ("read", "build", "most"),
    [
        (read_validator_answer, lambda count: b'{"status":"ok"}'.ljust(count), 64 * 1024),
        (read_processor_answer, lambda count: answer("a").ljust(count), (1024 + 2 * 64) * 1024),
        (
            read_processor_answer,
            lambda count: answer("a")[:-1] + b',"metadata":{"a":"%b"}}' % (b"x" * (count - 8)),
            64 * 1024,
        ),
        (
            read_processor_answer,
            lambda count: b'{"payload":{"payload":"%b"}}' % (b"x" * (count - 14)),
            1024 * 1024,
        ),
        (
            read_processor_answer,
            lambda count: b'{"payload":{"payload":%b}}' % (b"[" * (count - 2) + b"]" * (count - 2)),
            64,
        ),
    ],
    ids=["verdict", "whole", "metadata", "message", "depth"],
)
def test_an_answer_at_its_bound_is_taken_and_one_above_is_not(
    read: Callable[[bytes], object], build: Callable[[int], bytes], most: int
) -> None:
    read(build(most))
    with pytest.raises(InvalidExtensionMessage):
        read(build(most + 1))


@pytest.mark.parametrize("message_type", [*sorted(RESERVED_TYPES), "x" * (MAX_TYPE + 1)])
def test_a_type_that_no_request_may_have_is_no_answer(message_type: str) -> None:
    with pytest.raises(InvalidExtensionMessage, match="message_type"):
        read_processor_answer(answer(message_type))
