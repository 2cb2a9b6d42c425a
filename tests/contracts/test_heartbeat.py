"""Heartbeats: bare or in an envelope."""

import orjson
import pytest

from router.contracts.heartbeat import Heartbeat, read_claimed_id, read_heartbeat
from router.core.outcome import Fault

BEAT = {"worker_id": "w-1", "status": "busy", "timestamp": 1_700_000_000_000}
FULL = {**BEAT, "load": 0.5, "capacity": 8, "interval_ms": 1000, "tenant_id": "acme"}


def read(**fields: object) -> Heartbeat | Fault:
    return read_heartbeat(orjson.dumps({**BEAT, **fields}), 99)


def test_bare_and_enveloped_are_the_same() -> None:
    bare = read_heartbeat(orjson.dumps(FULL), 99)
    assert bare == Heartbeat(**FULL)
    assert (
        read_heartbeat(orjson.dumps({"version": "1", "kind": "heartbeat", "data": FULL}), 99)
        == bare
    )


@pytest.mark.parametrize(
    "told",
    ["2023-11-14T22:13:20Z", "2023-11-14T22:13:20", "2023-11-14T23:13:20+01:00", 1_700_000_000_000],
)
def test_the_time_is_milliseconds_or_iso(told: object) -> None:
    assert read(timestamp=told) == Heartbeat(**BEAT)


@pytest.mark.parametrize(
    ("field", "value"),
    [("load", 0.0), ("load", 1.0), ("interval_ms", 1), ("interval_ms", 3_600_000), ("capacity", 0)],
)
def test_a_figure_at_its_bound_is_taken(field: str, value: float) -> None:
    assert read(**{field: value}) == Heartbeat(**BEAT, **{field: value})


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b'{"worker_id":"w-1","status":7}', "w-1"),
        (b'{"worker_id":"outer","data":{"worker_id":"a\\nb\\u001b"}}', "a\\nb\\x1b"),
        (b'{"worker_id":"%b"}' % (b"x" * 65), "x" * 64),
        (b'{"worker_id":7}', None),
        (b"[]", None),
    ],
)
def test_the_id_in_a_refused_heartbeat_is_shown_as_far_as_it_is_one(
    data: bytes, shown: str | None
) -> None:
    assert read_claimed_id(data) == shown


def test_without_a_time_it_is_when_it_was_heard() -> None:
    assert read(timestamp=None) == Heartbeat(worker_id="w-1", status="busy", timestamp=99)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("worker_id", None),
        ("worker_id", "a b"),
        ("status", "gone"),
        ("status", None),
        ("load", 1.5),
        ("load", -1),
        ("capacity", "8"),
        ("interval_ms", 0),
        ("interval_ms", 3_600_001),
        ("timestamp", "yesterday"),
        ("tenant_id", "*"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(field: str, value: object) -> None:
    refused = read(**{field: value})
    assert isinstance(refused, Fault)
    assert refused.field == field


def test_sixteen_kilobytes_are_taken() -> None:
    assert read_heartbeat(orjson.dumps(BEAT).ljust(16 * 1024), 99) == Heartbeat(**BEAT)


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", orjson.dumps(BEAT).ljust(16 * 1024 + 1)])
def test_what_is_no_small_object_is_refused(data: bytes) -> None:
    assert isinstance(read_heartbeat(data, 99), Fault)
