"""Records of a key-value bucket that are written once: the first writer wins, and every reader gets the same record.

    create   store under a free key (expected last sequence 0), else return the record that is there
    find     the record under a key

A bucket that is missing or silent is away (BrokerUnavailable): it is never taken for an empty one. A full one takes no new record
(StorageFull) and can be read.
"""

from __future__ import annotations

from router.core.crashpoints import crashpoint
from router.core.errors import BrokerRefused, BrokerUnavailable, Poison, StorageFull
from router.delivery.api import STORAGE_FULL_CODES, JetStream, StoredMessage

WRONG_LAST_SEQUENCE = frozenset({10071, 10164})  # the second is said while another write to the key is still under way
TOO_LARGE = 10054

_HEAD_BYTES = 256  # of the connection's limit: our headers, and those of what is later published of the record
_TRIES = 5
_GONE = frozenset({"DEL", "PURGE"})


class WriteOnceKv:
    """One bucket over one connection."""

    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        self._jetstream = jetstream
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."

    async def create(self, key: str, record: bytes) -> bytes:
        """The record under the key afterwards: this one, or the one that was there before.

        BrokerUnavailable; StorageFull when the bucket is full; Poison when the record is too large.
        """
        if len(record) > self._jetstream.connection.max_payload - _HEAD_BYTES:
            raise Poison("the record is larger than the connection allows")
        last = 0
        for _ in range(_TRIES):
            crashpoint("before_create")
            if await self._is_stored(key, record, last):
                crashpoint("after_create")
                return record
            standing = await self._read_newest(key)
            if standing is not None and not _is_deleted(standing):
                return standing.data
            last = standing.sequence if standing is not None else 0
        raise BrokerUnavailable(f"{self._stream}: others write and delete the same key")

    async def find(self, key: str) -> bytes | None:
        """The record under the key. BrokerUnavailable."""
        standing = await self._read_newest(key)
        return standing.data if standing is not None and not _is_deleted(standing) else None

    async def _is_stored(self, key: str, record: bytes, last: int) -> bool:
        try:
            await self._jetstream.publish(self._prefix + key, record, {"Nats-Expected-Last-Subject-Sequence": str(last)})
        except BrokerRefused as exc:
            if exc.err_code in WRONG_LAST_SEQUENCE:
                return False
            if exc.err_code == TOO_LARGE:
                raise Poison("the record is larger than its bucket allows") from exc
            if exc.err_code in STORAGE_FULL_CODES:
                raise StorageFull(f"{self._stream} is full") from exc
            raise BrokerUnavailable(f"{self._stream}: {exc}") from exc
        return True

    async def _read_newest(self, key: str) -> StoredMessage | None:
        try:
            return await self._jetstream.get(self._stream, {"last_by_subj": self._prefix + key})
        except BrokerRefused as exc:
            raise BrokerUnavailable(f"{self._stream}: {exc}") from exc


def _is_deleted(standing: StoredMessage) -> bool:
    return standing.headers.get("KV-Operation") in _GONE
