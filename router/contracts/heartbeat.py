"""A worker's sign of life, on `caf.worker.heartbeat.v1` and `caf.status.heartbeat.v1`
(docs/reference/contracts.md#heartbeats).

    {worker_id, timestamp, status, load?, capacity?, interval_ms?, tenant_id?}, bare or in a
    worker's envelope of any kind

Heard on a core subscription: nothing is stored, so what cannot be read is counted, told in a log
line, and forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from router.contracts import field_kinds as kind
from router.contracts.codec import read_object
from router.contracts.field_readers import Object, read_amount, read_moment, read_whole
from router.contracts.malformed import Malformed, invalid_field
from router.contracts.message_spec import Field, MessageSpec, build_reader
from router.contracts.shapes.parts import MOMENT, Schema
from router.contracts.worker import DEFAULT_LIMITS, Received, unwrap
from router.core.masking import printable
from router.core.message import NO_HEADERS
from router.core.outcome import Fault

HEARTBEAT_SUBJECTS = ("caf.worker.heartbeat.v1", "caf.status.heartbeat.v1")
STOPPED = "stopped"
HEARTBEAT_STATUSES = frozenset({"idle", "busy", "draining", STOPPED})
MAX_BYTES = 16 * 1024
MAX_REPORTED_ID = 64  # characters of a refused id
MAX_INTERVAL_MS = 3_600_000  # an hour: a worker must not be able to promise that it is never silent


class Heartbeat(Struct, frozen=True, kw_only=True):
    worker_id: str
    status: str  # one of STATUSES
    timestamp: int  # the worker's clock, milliseconds since the epoch; ours where it told none
    load: float | None = None  # 0..1
    capacity: int | None = None
    interval_ms: int | None = None
    tenant_id: str | None = None


def _read_moment(sent: Received, name: str) -> int:
    return read_moment(sent.body, name) or sent.first_ms


def _read_load(body: Object, name: str) -> float | None:
    load = read_amount(body, name)
    if load is not None and load > 1:
        raise invalid_field(name, name, "a number from 0 to 1")
    return load


def _read_interval(body: Object, name: str) -> int | None:
    interval = read_whole(body, name)
    if interval is not None and not 1 <= interval <= MAX_INTERVAL_MS:
        raise invalid_field(name, name, f"1..{MAX_INTERVAL_MS}")
    return interval


_LOAD: Schema = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
# Half a millisecond is rounded up to 1.
_INTERVAL: Schema = {
    "type": ["number", "null"],
    "minimum": 0.5,
    "exclusiveMaximum": MAX_INTERVAL_MS + 0.5,
}
_CLOCK = "the worker's clock: milliseconds since the epoch, or ISO 8601 in UTC"
_NEXT = f"the next heartbeat comes within this, milliseconds, 1..{MAX_INTERVAL_MS}"
_STOPPING = {"worker_id": "w-1", "timestamp": "2024-01-15T14:30:00Z", "status": STOPPED}
HEARTBEAT_SPEC = MessageSpec(
    name="heartbeat",
    title="Heartbeat",
    text="A worker's sign of life. After three intervals without one the worker counts as silent.",
    page="docs/reference/contracts.md#heartbeats",
    made=Heartbeat,
    fields=(
        Field("worker_id", kind.ID, is_required=True),
        Field("status", kind.build_choice(HEARTBEAT_STATUSES), is_required=True),
        Field("timestamp", kind.FieldKind(MOMENT, _read_moment), _CLOCK),
        Field("load", kind.build_kind(_LOAD, _read_load)),
        Field("capacity", kind.ROUNDED, "assignments at once"),
        Field("interval_ms", kind.build_kind(_INTERVAL, _read_interval), _NEXT),
    ),
    first=("worker_id",),
    examples=(
        {
            "worker_id": "w-1",
            "timestamp": 1_700_000_000_000,
            "status": "busy",
            "load": 0.75,
            "capacity": 4,
            "interval_ms": 5000,
        },
        {"version": "1", "kind": "worker_heartbeat", "data": _STOPPING},
    ),
)
_read = build_reader(HEARTBEAT_SPEC)


def read_heartbeat(
    data: bytes, received_ms: int, headers: Mapping[str, str] = NO_HEADERS
) -> Heartbeat | Fault:
    """One heartbeat, heard at `received_ms`; a Fault says why it is none."""
    try:
        body = read_object(data, MAX_BYTES)
        named = body.get("kind")
        opened = unwrap(body, named) if type(named) is str and "data" in body else body
        return _read(Received(opened, headers, received_ms, received_ms, DEFAULT_LIMITS))
    except Malformed as refused:
        return refused.as_fault()


def read_claimed_id(data: bytes) -> str | None:
    """The worker id in a refused heartbeat, cut and printable, for a person who looks for that
    worker.
    """
    try:
        body = read_object(data, MAX_BYTES)
    except Malformed:
        return None
    inner = body.get("data")
    claimed = (inner if isinstance(inner, dict) else body).get("worker_id")
    return (
        printable(claimed[:MAX_REPORTED_ID]).replace("\n", "\\n")
        if isinstance(claimed, str)
        else None
    )
