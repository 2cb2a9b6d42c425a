"""Records of a key-value bucket that are written once: the first writer wins, and every reader gets
the same record.

    create   store under a free key (expected last sequence 0), else return the record that is there
    find     the record under a key

A bucket that is missing or silent is unavailable (BrokerUnavailable): it is never taken for an
empty one. A full one takes no new record (StorageFull) and can be read.
"""

from __future__ import annotations

from router.core.crashpoints import crashpoint
from router.core.errors import BrokerUnavailable, Conflict
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry

_TRIES = 5


class WriteOnceKv(DocumentBucket):
    """One bucket over one connection."""

    async def create(self, key: str, record: bytes) -> bytes:
        """The record under the key afterwards: this one, or the one that was there before.

        BrokerUnavailable; StorageFull when the bucket is full; Poison when the record is too large.
        """
        created = await self.try_create(key, record)
        return created.value if isinstance(created, BucketEntry) else record

    async def try_create(self, key: str, record: bytes) -> int | BucketEntry:
        """The revision of this record, or the one that was there before. Raises as `create`."""
        last = 0
        for _ in range(_TRIES):
            crashpoint("before_create")
            try:
                revision = await self._write(key, record, {}, last)
            except Conflict:
                newest = await self.read_newest(key)
            else:
                crashpoint("after_create")
                return revision
            if isinstance(newest, BucketEntry):
                return newest
            last = newest.revision if newest is not None else 0
        raise BrokerUnavailable(f"bucket {self.bucket}: others write and delete the same key")

    async def find(self, key: str) -> bytes | None:
        """The record under the key. BrokerUnavailable."""
        entry = await self.get(key)
        return entry.value if entry is not None else None
