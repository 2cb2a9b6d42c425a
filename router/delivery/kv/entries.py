"""What a bucket says: the value of a key, its deletion, or that the bucket is unavailable."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from router.core.errors import BrokerRefused, BrokerUnavailable, NotFound, StorageRefused
from router.delivery.wire.api import STREAM_NOT_FOUND
from router.delivery.wire.publish_faults import PublishFault, find_fault

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


# -- The error for a bucket that is missing or refuses: it is unavailable, never empty, and the
# text says what to do.


def missing_bucket(bucket: str) -> NotFound:
    return NotFound(f"there is no bucket {bucket}: `router topology apply` makes it")


def unavailable_bucket(bucket: str, exc: BrokerRefused) -> BrokerUnavailable:
    """The error that a server's refusal means for the reader of the bucket."""
    if exc.err_code == STREAM_NOT_FOUND:
        return missing_bucket(bucket)
    refuses = (
        StorageRefused if find_fault(exc.err_code) is PublishFault.STREAM else BrokerUnavailable
    )
    return refuses(f"bucket {bucket}: {exc}")
