"""Find the messages that name a tenant, also those that are no event.

    a body that can be decoded     its `tenant_id`
    any other                      every `"tenant_id": "…"` in its text, or the header

An erasure must find more than what was metered. Where a body names one tenant and the header
another, the message is the body's if it is an event, because it is in that tenant's bill; the
header's as well if it is none, which only the tables know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from router.contracts.codec import UNREADABLE_ERRORS
from router.lake.tables.body import LAST_TIMESTAMP_MS

_NAMED = re.compile(rb'"tenant_id"\s*:\s*("(?:[^"\\]|\\.)*")', re.DOTALL)
_HEADER = "tenant_id"


class NamedBody(msgspec.Struct):
    """What is read of a message to know whose it is, and when it was."""

    tenant_id: Any = None
    timestamp: Any = None


_decode = msgspec.json.Decoder(NamedBody).decode


class NamingMessages(msgspec.Struct, frozen=True):
    """Sequences (int64) of messages that name a tenant."""

    own: pa.Array
    by_header: pa.Array  # whose header alone does, beside a body that names another


def find_messages_of(
    messages: pa.RecordBatch, tenant: str, before_ms: int | None
) -> NamingMessages:
    """Find the messages (seq, time, headers, data) that name the tenant, and are of before that
    time.

    A message is of its own timestamp, or of the time of its storing if it has none. Milliseconds
    since the epoch; None: of any time.
    """
    rows = zip(
        messages["seq"].to_pylist(),
        messages["time"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_pylist(),
        pc.map_lookup(messages["headers"], _HEADER, "first").to_pylist(),
        messages["data"].to_pylist(),
        strict=True,
    )
    sequences: dict[str, list[int]] = {"own": [], "by_header": []}
    for seq, stored, header, data in rows:
        if (naming := _find_naming(data, header, tenant)) is not None and _is_before(
            data, stored, before_ms
        ):
            sequences[naming].append(seq)
    return NamingMessages(
        pa.array(sequences["own"], pa.int64()), pa.array(sequences["by_header"], pa.int64())
    )


def _find_naming(data: bytes, header: str | None, tenant: str) -> str | None:
    """Return the field of NamingMessages that the message belongs to; None: it does not name the
    tenant.
    """
    told = _read_body(data).tenant_id
    if isinstance(told, str) and told != tenant:
        return "by_header" if header == tenant else None
    return "own" if tenant in (told, header) or tenant in _list_names(data) else None


def _is_before(data: bytes, stored: int, before_ms: int | None) -> bool:
    if before_ms is None:
        return True
    told = _read_body(data).timestamp
    return (told if type(told) is int and 0 <= told <= LAST_TIMESTAMP_MS else stored) < before_ms


def _read_body(data: bytes) -> NamedBody:
    try:
        return _decode(data)
    except UNREADABLE_ERRORS:
        return NamedBody()


def _list_names(data: bytes) -> Iterable[str]:
    for written in _NAMED.findall(data):
        try:
            yield msgspec.json.decode(written, type=str)
        except UNREADABLE_ERRORS:
            continue
