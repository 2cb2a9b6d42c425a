"""The two kinds of a bucket's messages: the value of a key, or its deletion."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

_GONE = frozenset({"DEL", "PURGE"})


class BucketEntry(Struct, frozen=True):
    """A value. `revision` is the bucket's sequence, the optimistic lock; `stored_ns` the server's
    time, nanoseconds.
    """

    key: str
    value: bytes
    revision: int
    stored_ns: int


class DeletedKey(Struct, frozen=True):
    """A key was deleted, by this revision."""

    key: str
    revision: int
    stored_ns: int


def read_entry(
    key: str, value: bytes, headers: Mapping[str, str] | None, revision: int, stored_ns: int
) -> BucketEntry | DeletedKey:
    if headers and headers.get("KV-Operation") in _GONE:
        return DeletedKey(key, revision, stored_ns)
    return BucketEntry(key, value, revision, stored_ns)
