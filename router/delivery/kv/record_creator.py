"""Records of a bucket that are written once, under a key that must be free: one by one, or many at
once, each with its publish ack by callback.

    create ──> publish (expected last sequence 0) ──> publish ack ──> the record stands
                                                  ├── the key is taken ──> what is there is read
                                                  └── refused, or too large ──> `WriteOnceKv.create`, which has words for it

A request of its own costs a record a task and a future. What this costs: a refused record is
published twice, or read, and refusals are rare (a duplicate after a crash, a full bucket). A record
has no message id: the free key tells whether it is stored. What a leader or a connection took with
it is published again before its time is over, and a bucket whose publish acks are dear is written
in atomic batches, as effects are (`batching_publisher`).
"""

from __future__ import annotations

import asyncio
from functools import partial

import nats.errors

from router.core.crashpoints import crashpoint
from router.core.deferred import Deferred
from router.core.errors import BrokerUnavailable, Conflict, NoLeader
from router.core.ids import bucket_prefix
from router.core.message import Effect
from router.delivery.kv.documents import EXPECTED, DocumentBucket
from router.delivery.kv.entries import BucketEntry
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished, PublishAcks
from router.delivery.publish.batching_publisher import BatchingPublisher
from router.delivery.publish.encoded_headers import EncodedHeaders
from router.delivery.wire.api import WRONG_LAST_SEQUENCE, JetStream

# -- Records of a key-value bucket that are written once: the first writer wins, and every reader
# gets the same record.
#
# create   store under a free key (expected last sequence 0), else return the record that is there
# find     the record under a key
#
# A bucket that is missing or silent is unavailable (BrokerUnavailable): it is never taken for an
# empty one. A full one takes no new record (StorageFull) and can be read.


_TRIES = 5
_FIRST_PAUSE_S = 0.05  # the next ones are twice as long, each


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
        last, pause_s = 0, _FIRST_PAUSE_S
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
            if newest is None:  # another write to the key is under way
                await asyncio.sleep(pause_s)
                pause_s *= 2
            last = newest.revision if newest is not None else 0
        raise BrokerUnavailable(f"bucket {self.bucket}: others write and delete the same key")

    async def find(self, key: str) -> bytes | None:
        """The record under the key. BrokerUnavailable."""
        entry = await self.get(key)
        return entry.value if entry is not None else None


# -- Create records of a bucket, many at once: each is published under a key that must be free,
# and its publish ack comes by callback.


LOOK_EVERY_S = 0.5
IS_FREE = EncodedHeaders({EXPECTED: "0"})


class RecordCreator:
    """For one bucket over one connection. `takes_batches`: its stream may be written in batches."""

    def __init__(
        self,
        jetstream: JetStream,
        records: WriteOnceKv,
        timeout_s: float = 5.0,
        *,
        takes_batches: bool = False,
    ) -> None:
        self._connection = jetstream.connection
        self._records = records
        self._prefix = jetstream.write_subject(bucket_prefix(records.bucket))
        self._timeout_s = timeout_s
        self._publisher: AckedPublisher = (
            BatchingPublisher(jetstream, timeout_s, stream_of=lambda _: records.bucket)
            if takes_batches
            else AckedPublisher(jetstream, timeout_s)
        )
        # the first record opens the publisher, and takes the careful way
        self._is_open = False
        self._opening: asyncio.Task[None] | None = None
        self._careful: set[asyncio.Task[None]] = set()
        # one for all: records come and go a thousand times between two looks
        self._has_timer = False

    def create(self, key: str, record: bytes) -> Deferred[bytes]:
        """The record under the key afterwards, and errors, as `WriteOnceKv.create`. It always ends,
        in time.
        """
        created: Deferred[bytes] = Deferred()
        if not self._is_open or not self._records.has_room_for(record):
            self._opening = self._opening or asyncio.get_running_loop().create_task(self._open())
            self._create_carefully(key, record, created)
            return created
        if not self._has_timer:
            self._start_timer()
        crashpoint("before_create")
        self._publisher.publish_one(
            Effect(self._prefix + key, record, "", IS_FREE),
            partial(self._on_answer, key, record, created),
        )
        return created

    async def _open(self) -> None:
        try:
            await self._publisher.open()
        except (nats.errors.Error, OSError):  # the next record tries again
            self._opening = None
        else:
            self._is_open = True

    def _on_answer(
        self, key: str, record: bytes, created: Deferred[bytes], result: PublishAcks | NotPublished
    ) -> None:
        if not isinstance(result, NotPublished):
            crashpoint("after_create")
            created.resolve(record)
        elif result.err_code:
            is_taken = result.err_code == WRONG_LAST_SEQUENCE
            self._create_carefully(key, record, created, is_taken=is_taken)
        else:
            created.resolve(self._explain_silence(result))

    def _explain_silence(self, result: NotPublished) -> BrokerUnavailable:
        return self._connection.denials.find(result.subject) or NoLeader(
            f"bucket {self._records.bucket}: {result.cause} ({self._timeout_s:g} s)"
        )

    def _create_carefully(
        self, key: str, record: bytes, created: Deferred[bytes], *, is_taken: bool = False
    ) -> None:
        """By a task, which looks at what stands under the key, and has words for each refusal.
        `is_taken`: it looks before it writes, as after a batch that was stored without a word.
        """
        task = asyncio.get_running_loop().create_task(
            self._await_record(key, record, created, is_taken=is_taken)
        )
        self._careful.add(task)
        task.add_done_callback(self._careful.discard)

    async def _await_record(
        self, key: str, record: bytes, created: Deferred[bytes], *, is_taken: bool
    ) -> None:
        try:
            found = await self._records.find(key) if is_taken else None
            created.resolve(found if found is not None else await self._records.create(key, record))
        except BaseException as exc:  # also a cancellation: no caller may wait for ever
            created.resolve(exc)
            if not isinstance(exc, Exception):
                raise

    def _start_timer(self) -> None:
        self._has_timer = True
        asyncio.get_running_loop().call_later(min(LOOK_EVERY_S, self._timeout_s), self._look)

    def _look(self) -> None:
        """End what has no publish ack in time, and send again what may be lost. The timer runs as
        long as records wait.
        """
        self._has_timer = False
        self._publisher.expire()
        if self._publisher.pending and not self._has_timer:
            self._start_timer()
