"""Records of a bucket that are written once, under a key that must be free: one by one, or many at
once, each with its publish ack by callback.

    create ──> publish (expected last sequence 0) ──> publish ack ──> the record stands
                                                  └── refused, or too large ──> `WriteOnceKv.create`, which looks at what is there

A request of its own costs a record a task and a future. What this costs: a refused record is
published twice, and refusals are rare (a duplicate after a crash, a full bucket). What a leader or
a connection took with it is published again before its time is over (`known_effects`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import takewhile

import nats.errors
from msgspec import Struct

from router.core.clock import steady
from router.core.crashpoints import crashpoint
from router.core.deferred import Deferred
from router.core.errors import BrokerUnavailable, Conflict, NoLeader
from router.core.ids import bucket_prefix
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry
from router.delivery.publish.known_effects import Probe, PublishProbes
from router.delivery.publish.publish_acks import PublishAckBody, read_publish_ack
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import head_of

# -- Records of a key-value bucket that are written once: the first writer wins, and every reader
# gets the same record.
#
# create   store under a free key (expected last sequence 0), else return the record that is there
# find     the record under a key
#
# A bucket that is missing or silent is unavailable (BrokerUnavailable): it is never taken for an
# empty one. A full one takes no new record (StorageFull) and can be read.


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


# -- Create records of a bucket, many at once: each is published under a key that must be free,
# and its publish ack comes by callback.


LOOK_EVERY_S = 0.5
ALREADY_THERE = 10071  # the key's last sequence is another one
IS_FREE = head_of({"Nats-Expected-Last-Subject-Sequence": "0"})


class PendingCreate(Struct):
    """One record that waits for its publish ack. `sent_at`: steady seconds."""

    key: str
    record: bytes
    sent_at: float
    created: Deferred[bytes]


class RecordCreator:
    """For one bucket over one connection."""

    def __init__(self, jetstream: JetStream, records: WriteOnceKv, timeout_s: float = 5.0) -> None:
        self._connection = jetstream.connection
        self._records = records
        self._prefix = jetstream.write_subject(bucket_prefix(records.bucket))
        self._timeout_s = timeout_s
        self._pending: dict[str, PendingCreate] = {}  # by inbox, oldest first
        self._probes = PublishProbes()
        self._reconnects = jetstream.connection.reconnect_count  # when what waits was sent
        self._count = 0
        self._inbox: str | None = None  # None: the first record opens it, and takes the careful way
        self._opening: asyncio.Task[None] | None = None
        self._careful: set[asyncio.Task[None]] = set()
        # one for all: records come and go a thousand times between two looks
        self._has_timer = False
        self._now = steady

    def create(self, key: str, record: bytes) -> Deferred[bytes]:
        """The record under the key afterwards, and errors, as `WriteOnceKv.create`. It always ends,
        in time.
        """
        created: Deferred[bytes] = Deferred()
        if self._inbox is None or not self._records.has_room_for(record):
            self._opening = self._opening or asyncio.get_running_loop().create_task(self._open())
            self._create_carefully(key, record, created)
            return created
        if not self._has_timer:
            self._start_timer()
        self._count += 1  # `_make_inbox` and `_put` in place: once a message
        inbox = f"{self._inbox}{self._count}"
        self._pending[inbox] = PendingCreate(key, record, self._now(), created)
        crashpoint("before_create")
        # else `_look` sends it: the write buffer would keep each copy of a record that is tried
        # again
        if self._connection.is_connected:
            self._connection.publish_nowait(self._prefix + key, record, inbox, IS_FREE)
        return created

    def _make_inbox(self) -> str:
        self._count += 1
        return f"{self._inbox}{self._count}"

    def _put(self, pending: PendingCreate, inbox: str) -> None:
        self._connection.publish_nowait(self._prefix + pending.key, pending.record, inbox, IS_FREE)

    async def _open(self) -> None:
        inbox = self._connection.new_inbox() + "."
        try:
            await self._connection.subscribe_raw(inbox + "*", self._on_publish_ack)
        except (nats.errors.Error, OSError):  # the next record tries again
            self._opening = None
        else:
            self._inbox = inbox

    def _on_publish_ack(
        self, subject: bytes, _reply: bytes, data: bytes, _head: bytes | None
    ) -> None:
        try:
            self._take_publish_ack(subject.decode("utf-8", "replace"), data)
        except (Exception, asyncio.CancelledError) as exc:  # the reader must go on
            self._connection.on_fault(exc)

    def _take_publish_ack(self, inbox: str, data: bytes) -> None:
        pending = self._pending.pop(inbox, None)
        if pending is not None:
            self._on_answer(pending, read_publish_ack(data))
        elif (probe := self._probes.pop(inbox)) is not None and probe.inbox in self._pending:
            answer = read_publish_ack(data)
            if _is_stored(answer) or _is_taken(answer):
                self._on_answer(self._pending.pop(probe.inbox), answer)
                before = takewhile(
                    lambda waiting: waiting[1].sent_at < probe.at, self._pending.items()
                )
                self._send_again([inbox for inbox, _ in before])

    def _on_answer(self, pending: PendingCreate, answer: PublishAckBody | None) -> None:
        if _is_stored(answer):
            crashpoint("after_create")
            pending.created.resolve(pending.record)
        else:
            self._create_carefully(pending.key, pending.record, pending.created)

    def _create_carefully(self, key: str, record: bytes, created: Deferred[bytes]) -> None:
        """By a task, which looks at what stands under the key, and has words for each refusal."""
        task = asyncio.get_running_loop().create_task(self._await_record(key, record, created))
        self._careful.add(task)
        task.add_done_callback(self._careful.discard)

    async def _await_record(self, key: str, record: bytes, created: Deferred[bytes]) -> None:
        try:
            created.resolve(await self._records.create(key, record))
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
        now = self._now()
        if self._connection.is_connected and self._reconnects != self._connection.reconnect_count:
            self._reconnects = self._connection.reconnect_count
            self._send_again(list(self._pending))
        self._expire(now)
        self._probes.forget(now - self._timeout_s)
        if self._pending and not self._has_timer:
            self._start_timer()
        if self._pending and self._connection.is_connected:
            self._send_probe(now)

    def _expire(self, now: float) -> None:
        while self._pending:
            inbox, pending = next(iter(self._pending.items()))
            if pending.sent_at > now - self._timeout_s:
                return
            del self._pending[inbox]
            denied = self._connection.denials.find(self._prefix + pending.key)
            pending.created.resolve(
                denied
                or NoLeader(
                    f"bucket {self._records.bucket}: no publish ack within {self._timeout_s:g} s"
                )
            )

    def _send_probe(self, now: float) -> None:
        waiting = (
            (inbox, self._prefix, pending.sent_at) for inbox, pending in self._pending.items()
        )
        for group, inbox in self._probes.find_due(waiting, now).items():
            self._probes.add(own := self._make_inbox(), Probe(inbox, group, now))
            self._put(self._pending[inbox], own)

    def _send_again(self, inboxes: Sequence[str]) -> None:
        """Their first copies are lost: they have all their time again.

        A server whose `max_payload` was lowered would close the connection again for what is above
        it.
        """
        for inbox in inboxes:
            pending = self._pending.pop(inbox)
            if not self._records.has_room_for(pending.record):
                self._create_carefully(pending.key, pending.record, pending.created)
                continue
            self._pending[inbox] = pending
            pending.sent_at = self._now()
            self._put(pending, inbox)


def _is_stored(answer: PublishAckBody | None) -> bool:
    """Whether the record is stored, under its conditions. None: no publish ack, as the empty answer
    of a server without such a stream.
    """
    return answer is not None and answer.error is None


def _is_taken(answer: PublishAckBody | None) -> bool:
    """Whether a second copy was refused because the first one is stored."""
    return (
        answer is not None and answer.error is not None and answer.error.err_code == ALREADY_THERE
    )
