"""Find the messages that name a tenant, also those that are no event.

    a body that can be decoded     its `tenant_id`
    any other                      every `"tenant_id": "…"` in its text, or the header

An erasure must find more than what was metered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa

from router.lake.tables.body import LAST_TIMESTAMP_MS

_NAMED = re.compile(rb'"tenant_id"\s*:\s*("(?:[^"\\]|\\.)*")', re.DOTALL)
_HEADER = "tenant_id"


class NamedBody(msgspec.Struct):
    """What is read of a message to know whose it is, and when it was."""

    tenant_id: Any = None
    timestamp: Any = None


_decode = msgspec.json.Decoder(NamedBody).decode


def find_messages_of(messages: pa.RecordBatch, tenant: str, before_ms: int | None) -> pa.Array:
    """Return the sequences of the messages (seq, time, headers, data) that name the tenant, and are of before that time.

    A message is of its own timestamp, or of the time of its storing if it has none. Milliseconds since the epoch; None: of any time."""
    rows = zip(
        messages["seq"].to_pylist(),
        messages["time"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_pylist(),
        messages["headers"],
        messages["data"].to_pylist(),
        strict=True,
    )
    return pa.array(
        [seq for seq, stored, headers, data in rows if _is_of(data, headers, tenant) and _is_before(data, stored, before_ms)], pa.int64()
    )


def _is_of(data: bytes, headers: pa.MapScalar, tenant: str) -> bool:
    body = _read_body(data)
    if isinstance(body.tenant_id, str):
        return bool(body.tenant_id == tenant)
    return tenant in _list_names(data) or dict(headers.as_py() or ()).get(_HEADER) == tenant


def _is_before(data: bytes, stored: int, before_ms: int | None) -> bool:
    if before_ms is None:
        return True
    told = _read_body(data).timestamp
    return (told if type(told) is int and 0 <= told <= LAST_TIMESTAMP_MS else stored) < before_ms


def _read_body(data: bytes) -> NamedBody:
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError):
        return NamedBody()


def _list_names(data: bytes) -> Iterable[str]:
    for found in _NAMED.findall(data):
        try:
            yield msgspec.json.decode(found, type=str)
        except msgspec.DecodeError:
            continue
