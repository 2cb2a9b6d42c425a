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

from router.contracts import field_readers
from router.contracts.codec import read_object
from router.contracts.field_readers import Object
from router.contracts.malformed import Malformed, invalid_field, missing_field
from router.contracts.worker import unwrap
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


def read_heartbeat(
    data: bytes, received_ms: int, headers: Mapping[str, str] = NO_HEADERS
) -> Heartbeat | Fault:
    """One heartbeat, heard at `received_ms`; a Fault says why it is none."""
    try:
        body = read_object(data, MAX_BYTES)
        kind = body.get("kind")
        return _heartbeat(
            unwrap(body, kind) if type(kind) is str and "data" in body else body,
            headers,
            received_ms,
        )
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


def _heartbeat(body: Object, headers: Mapping[str, str], received_ms: int) -> Heartbeat:
    worker_id = field_readers.read_id(body, "worker_id")
    if worker_id is None:
        raise missing_field("worker_id", "worker_id")
    return Heartbeat(
        worker_id=worker_id,
        status=field_readers.read_choice(body, "status", HEARTBEAT_STATUSES),
        timestamp=field_readers.read_moment(body, "timestamp") or received_ms,
        load=_load(body),
        capacity=field_readers.read_whole(body, "capacity"),
        interval_ms=_interval(body),
        tenant_id=field_readers.read_tenant(headers, body),
    )


def _load(body: Object) -> float | None:
    load = field_readers.read_amount(body, "load")
    if load is not None and load > 1:
        raise invalid_field("load", "load", "a number from 0 to 1")
    return load


def _interval(body: Object) -> int | None:
    interval = field_readers.read_whole(body, "interval_ms")
    if interval is not None and not 1 <= interval <= MAX_INTERVAL_MS:
        raise invalid_field("interval_ms", "interval_ms", f"1..{MAX_INTERVAL_MS}")
    return interval
