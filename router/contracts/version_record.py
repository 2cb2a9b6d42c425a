"""One version of a document as a bucket holds it: content, author, time. The bucket's history is
the history of these records.

The writer counts versions: one more than the version before, also after a deletion. They are for
people and for what a decision remembers; the lock is the bucket's own revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
import orjson
from msgspec import Struct

from router.contracts.canary import CanaryPlan
from router.contracts.codec import MAX_DEPTH, UNREADABLE_ERRORS, check_numbers, is_deeper
from router.core import ids
from router.core.errors import Poison


class VersionRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`time`: ISO, UTC. `hash`: sha256 of the document with its keys in order, hexadecimal. `note`:
    why it was written.
    """

    version: int
    author: str
    time: str
    hash: str
    document: Mapping[str, object]
    note: str | None = None
    canary: CanaryPlan | None = None  # of a policy: what is tried beside the document


_DECODER = msgspec.json.Decoder(VersionRecord)


def make_record(
    document: Mapping[str, object],
    *,
    version: int,
    author: str,
    at_s: float | None = None,
    note: str | None = None,
    canary: CanaryPlan | None = None,
) -> VersionRecord:
    """`at_s`: seconds since the epoch, now unless said."""
    at = datetime.fromtimestamp(at_s, UTC) if at_s is not None else datetime.now(UTC)
    time = at.isoformat(timespec="milliseconds")
    digest = document_hash(document)
    return VersionRecord(
        version=version,
        author=author,
        time=time,
        hash=digest,
        document=document,
        note=note,
        canary=canary,
    )


def document_hash(document: Mapping[str, object]) -> str:
    """The same for equal documents, whatever the order of their keys."""
    return ids.sha256_hex(orjson.dumps(document, option=orjson.OPT_SORT_KEYS))


def read_record(data: bytes) -> VersionRecord:
    """The record in these bytes. Raises Poison: they are no record, another client wrote them."""
    # the record is one level around its document, two around a candidate
    if is_deeper(data, MAX_DEPTH + 2):
        raise Poison(f"is nested deeper than {MAX_DEPTH}")
    try:
        record = _DECODER.decode(data)
        check_numbers(data, record.document)
        check_numbers(data, record.canary.document if record.canary is not None else None)
    except (*UNREADABLE_ERRORS, ValueError) as exc:
        raise Poison("is not a record of a version") from exc
    return record
