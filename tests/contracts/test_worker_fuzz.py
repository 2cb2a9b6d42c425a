"""Whatever workers send, reading it ends in a Reading."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from router.contracts.acknowledgement import (
    EXEC_ASSIGNMENT_ACK,
    ExecAssignmentAck,
    read_acknowledgement,
)
from router.contracts.extract import extract_ids
from router.contracts.heartbeat import Heartbeat, read_heartbeat
from router.contracts.result import RESULT, ExecResult, read_result
from router.contracts.worker import WorkerMessageLimits
from router.core.message import Message
from router.core.outcome import Fault
from router.work.model import make_marked_event, make_usage_effect
from tests.support.requests import GOOD_HEADERS, a_message
from tests.support.workers import ACKS, RESULTS, a_body, in_every_form

NAMES = sorted(
    {
        *ExecResult.__struct_fields__,
        *ExecAssignmentAck.__struct_fields__,
        *Heartbeat.__struct_fields__,
    }
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=6)
)
words = st.sampled_from(
    ["", "acme", "1", "2", "success", "accepted", "exec_result", "busy", "a b", "x" * 300]
)
fields = st.sampled_from(
    [*NAMES, "job", "type", "kind", "data", "version", "schema_version"]
) | st.text(max_size=4)
objects = st.deferred(lambda: st.dictionaries(fields, values, max_size=6))
values = scalars | words | st.lists(scalars, max_size=2) | objects
texts = words | st.text(max_size=10) | st.text(st.characters(categories=["Cs", "Cc"]), max_size=4)
headers = st.dictionaries(
    st.sampled_from([*GOOD_HEADERS, "traceparent", "cp_phase"]) | texts, texts, max_size=6
)


def is_sound(message: Message, *, strict: bool = False) -> None:
    result = read_result(message, WorkerMessageLimits(strict=strict)).found
    assert isinstance(result, ExecResult | Fault)
    assert isinstance(read_acknowledgement(message).found, ExecAssignmentAck | Fault)
    assert isinstance(read_heartbeat(message.data, 1), Heartbeat | Fault)
    extract_ids(message, RESULT)
    extract_ids(message, EXEC_ASSIGNMENT_ACK)
    if isinstance(result, ExecResult) and not isinstance(event := make_marked_event(result), Fault):
        orjson.loads(make_usage_effect(event).data)


@given(st.binary(max_size=80), headers, st.booleans(), st.sampled_from([RESULTS, ACKS]))
def test_any_bytes_are_read(
    data: bytes, given_headers: dict[str, str], strict: bool, subject: str
) -> None:
    is_sound(a_message(data, given_headers, subject=subject), strict=strict)


@given(objects, headers, st.booleans())
def test_any_object_is_read(
    body: dict[str, object], given_headers: dict[str, str], strict: bool
) -> None:
    is_sound(a_message(orjson.dumps(body), given_headers, subject=RESULTS), strict=strict)


@given(st.dictionaries(fields, values, max_size=4))
def test_a_valid_result_with_any_damage_is_read(damage: dict[str, object]) -> None:
    for body in ({**a_body(), **damage}, {"kind": "exec_result", "data": {**a_body(), **damage}}):
        is_sound(a_message(orjson.dumps(body), subject=RESULTS))


@given(st.integers(0, 90), st.binary(max_size=4), st.booleans())
def test_damaged_protobuf_is_read(at: int, bytes_in: bytes, is_cut: bool) -> None:
    data = in_every_form()["protobuf"].data
    is_sound(a_message(data[:at] + bytes_in + (b"" if is_cut else data[at:]), subject=RESULTS))
