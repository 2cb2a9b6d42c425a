"""What an agent is handed, and that it is the same for every delivery."""

import json

import pytest

from router.agents.envelope import read_envelope, stored_envelope
from router.contracts.malformed import Malformed
from tests.support.agents import STORED_NS, a_message

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def body(**fields: object) -> bytes:
    return json.dumps({"type": "count", **fields}).encode()


def test_the_key_is_the_bodys_else_the_message_id_else_the_place_and_time_in_the_stream() -> None:
    """MF-4."""
    headers = {"Nats-Msg-Id": "m-1"}
    assert (
        read_envelope(a_message(7, body=body(idempotency_key="k"), headers=headers)).idempotency_key
        == "k"
    )
    assert read_envelope(a_message(7, body=body(), headers=headers)).idempotency_key == "m-1"
    assert (
        read_envelope(a_message(7, body=body())).idempotency_key
        == f"MESHFORGE_COMMANDS:7:{STORED_NS + 7}"
    )


def test_a_missing_ts_is_the_streams_and_a_given_one_stays() -> None:
    """MF-10: not this machine's clock, so that a redelivery and another store say the same."""
    first, again = a_message(7, body=body()), a_message(7, body=body(), deliveries=3)
    assert read_envelope(first).ts == (STORED_NS + 7) // 1_000_000 == read_envelope(again).ts
    assert (
        read_envelope(a_message(body=body(ts="2026-01-01T00:00:00Z"))).ts == "2026-01-01T00:00:00Z"
    )
    assert read_envelope(a_message(body=body(ts=12.5))).ts == 12.5


def test_the_trace_is_the_bodys_else_the_traceparents_else_derived_from_the_key() -> None:
    """MF-9."""
    headers = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    given = read_envelope(a_message(body=body(trace_id="t", span_id="s"), headers=headers))
    assert (given.trace_id, given.span_id) == ("t", "s")
    from_header = read_envelope(a_message(body=body(), headers=headers))
    assert (from_header.trace_id, from_header.span_id) == (TRACE, SPAN)
    derived, again = (
        read_envelope(a_message(body=body(idempotency_key="k"), deliveries=n)) for n in (1, 2)
    )
    assert (derived.trace_id, derived.span_id) == (again.trace_id, again.span_id)
    assert len(derived.trace_id) == 32
    assert len(derived.span_id) == 16


def test_what_is_stored_reads_as_what_was_received() -> None:
    envelope = read_envelope(
        a_message(body=body(causation_id="c", payload={"b": [1, None], "a": "ü"}))
    )
    assert stored_envelope(envelope.canonical) == envelope


def test_equal_content_is_equal_bytes() -> None:
    """MF-11: the order of names in a body means nothing."""
    one = b'{"type":"t","payload":{"a":1,"b":2},"idempotency_key":"k"}'
    other = b'{"idempotency_key": "k", "payload": {"b": 2, "a": 1}, "type": "t"}'
    assert (
        read_envelope(a_message(body=one)).canonical
        == read_envelope(a_message(body=other)).canonical
    )


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"not json", None),
        (b"[]", None),
        (body(type=None), "type"),
        (body(type="has space"), "type"),
        (body(ts=True), "ts"),
        (body(ts={}), "ts"),
        (body(ts="x" * 200), "ts"),
        (body(idempotency_key=""), "idempotency_key"),
        (body(idempotency_key=7), "idempotency_key"),
        (body(idempotency_key="k" * 257), "idempotency_key"),
        (body(idempotency_key="a\nb"), "idempotency_key"),
        (body(trace_id=[]), "trace_id"),
        (body(causation_id=3), "causation_id"),
    ],
)
def test_what_cannot_be_read_names_its_field(data: bytes, field: str | None) -> None:
    with pytest.raises(Malformed) as caught:
        read_envelope(a_message(body=data))
    assert caught.value.field == field


def test_limits_come_before_parsing() -> None:
    with pytest.raises(Malformed, match="larger"):
        read_envelope(a_message(body=b'{"type":"t"}'), max_bytes=4)
