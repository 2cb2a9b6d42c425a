"""The record of an attempt: what is written is read again, and what is none is refused."""

import orjson
import pytest

from router.contracts.stored_record import record_bytes
from router.core.errors import Poison
from router.work.model.invocation_record import InvocationRecord, draw_attempt_id, read_record


def a_record(**fields: object) -> InvocationRecord:
    told = {
        "attempt_id": "0" * 32,
        "tenant_id": "acme",
        "provider_id": "openai",
        "event_type": "chat",
        "request_id": "r-1",
        "trace_id": "t-1",
        "begun_ms": 0,
        "deadline_ms": 0,
        **fields,
    }
    return InvocationRecord(**told)  # type: ignore[arg-type]


def test_what_is_written_is_read_again() -> None:
    record = a_record(attempt_id=draw_attempt_id(), begun_ms=1, nanos=7, model="m", price="p#1")
    assert read_record(record_bytes(record)) == record
    assert record.event_id == f"usage:{record.attempt_id}"


@pytest.mark.parametrize(
    "wrong",
    [
        {"begun_ms": -1},
        {"deadline_ms": -1},
        {"nanos": -1},
        {"nanos": 0.5},
        {"attempt_id": "x" * 32},
    ],
)
def test_a_record_with_an_impossible_figure_is_none(wrong: dict[str, object]) -> None:
    written = {**orjson.loads(record_bytes(a_record())), **wrong}
    with pytest.raises(Poison):
        read_record(orjson.dumps(written))
