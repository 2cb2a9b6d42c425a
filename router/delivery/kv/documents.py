"""Documents of a bucket that people edit: a write that has not seen the latest revision is refused.

Every write names the revision that it replaces, and the server compares. A bucket that is missing
or silent is unavailable (BrokerUnavailable): it is never taken for an empty one. A router reads
them through `BucketMirror`.
"""

from __future__ import annotations

from router.core.errors import BrokerRefused, Conflict, StorageFull, TooLargeToStore
from router.core.ids import bucket_prefix
from router.delivery.kv.entries import BucketEntry, DeletedKey, read_entry, unavailable_bucket
from router.delivery.kv.watcher import KvWatcher
from router.delivery.wire.api import LAST_SEQUENCE_DIFFERS, JetStream, nanos
from router.delivery.wire.publish_faults import STORAGE_FULL_CODES, TOO_LARGE_CODES

PURGE = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
EXPECTED = "Nats-Expected-Last-Subject-Sequence"

# of the connection's limit: our headers, and those of what is later published of a record
_HEAD_BYTES = 256


class DocumentBucket:
    """One bucket over one connection."""

    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        self._jetstream = jetstream
        self.bucket = bucket
        self._stream = f"KV_{bucket}"
        self._prefix = bucket_prefix(bucket)

    async def get(self, key: str) -> BucketEntry | None:
        """The key's current entry; None: there is none. Raises BrokerUnavailable."""
        newest = await self.read_newest(key)
        return newest if isinstance(newest, BucketEntry) else None

    async def read_newest(self, key: str) -> BucketEntry | DeletedKey | None:
        """The key's newest entry, or its deletion; None: it never had one. Raises
        BrokerUnavailable.
        """
        try:
            stored = await self._jetstream.get(self._stream, {"last_by_subj": self._prefix + key})
        except BrokerRefused as exc:
            raise unavailable_bucket(self.bucket, exc) from None
        return (
            None
            if stored is None
            else read_entry(key, stored.data, stored.headers, stored.sequence, nanos(stored.time))
        )

    async def put(self, key: str, value: bytes, *, revision: int | None) -> int:
        """The new revision. `revision`: the one it replaces; None: there must be none.

        Conflict, BrokerUnavailable, StorageFull, Poison (too large).
        """
        return await self._write(
            key, value, {}, await self._expect_free(key) if revision is None else revision
        )

    async def delete(self, key: str, *, revision: int) -> None:
        """Its history stays. Conflict, BrokerUnavailable."""
        await self._write(key, b"", {"KV-Operation": "DEL"}, revision)

    async def purge(self, key: str, *, revision: int) -> None:
        """With its history. Conflict, BrokerUnavailable."""
        await self._write(key, b"", PURGE, revision)

    async def history(self, key: str) -> list[BucketEntry | DeletedKey]:
        """All revisions of one key that the bucket still holds, oldest first. Raises
        BrokerUnavailable.
        """
        entries: list[BucketEntry | DeletedKey] = []
        await self._list_once(
            KvWatcher(self._jetstream, self.bucket, entries.append, key=key, deliver="all")
        )
        return entries

    async def read_all(self) -> dict[str, BucketEntry]:
        """All current entries of the bucket. Raises BrokerUnavailable."""
        entries: list[BucketEntry | DeletedKey] = []
        await self._list_once(KvWatcher(self._jetstream, self.bucket, entries.append))
        newest = {entry.key: entry for entry in entries}
        return {key: entry for key, entry in newest.items() if isinstance(entry, BucketEntry)}

    async def _list_once(self, following: KvWatcher) -> None:
        try:
            await following.open()
        finally:
            await following.close()

    async def _expect_free(self, key: str) -> int:
        """The revision that the server must expect of a key without an entry."""
        newest = await self.read_newest(key)
        if isinstance(newest, BucketEntry):
            raise Conflict(f"{key} exists already", newest.revision)
        return newest.revision if newest is not None else 0

    def has_room_for(self, value: bytes) -> bool:
        """Whether the connection takes a value of this size."""
        return len(value) <= self._jetstream.connection.max_payload - _HEAD_BYTES

    async def _write(self, key: str, value: bytes, headers: dict[str, str], last: int) -> int:
        if not self.has_room_for(value):
            raise TooLargeToStore("the document is larger than the connection allows")
        try:
            answer = await self._jetstream.publish(
                self._jetstream.write_subject(self._prefix + key),
                value,
                {**headers, EXPECTED: str(last)},
            )
        except BrokerRefused as exc:
            if exc.err_code in LAST_SEQUENCE_DIFFERS:
                raise Conflict(f"{key} was written by another client") from exc
            if exc.err_code in TOO_LARGE_CODES:
                raise TooLargeToStore("the document is larger than its bucket allows") from exc
            if exc.err_code in STORAGE_FULL_CODES:
                raise StorageFull(f"bucket {self.bucket} is full") from exc
            raise unavailable_bucket(self.bucket, exc) from None
        return int(answer["seq"])
