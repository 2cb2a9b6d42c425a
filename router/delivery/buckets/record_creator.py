"""Create records of a bucket, many at once: each is published under a key that must be free, and its publish ack comes by callback.

    create ──> publish (expected last sequence 0) ──> publish ack ──> the record stands
                                                  └── refused, or too large ──> `WriteOnceKv.create`, which looks at what is there

A request of its own costs a record a task and a future. What this costs: a refused record is published twice, and refusals are rare (a
duplicate after a crash, a full bucket).
"""

from __future__ import annotations

import asyncio

import nats.errors
from msgspec import Struct

from router.core.clock import steady
from router.core.crashpoints import crashpoint
from router.core.deferred import Deferred
from router.core.errors import NoLeader
from router.core.ids import bucket_prefix
from router.delivery.api import JetStream
from router.delivery.buckets.write_once import WriteOnceKv
from router.delivery.connection import head_of
from router.delivery.publish_ack import read_publish_ack

IS_FREE = head_of({"Nats-Expected-Last-Subject-Sequence": "0"})


class PendingCreate(Struct):
    """One record that waits for its publish ack. `until`: steady seconds."""

    key: str
    record: bytes
    until: float
    created: Deferred[bytes]


class RecordCreator:
    """For one bucket over one connection."""

    def __init__(self, jetstream: JetStream, records: WriteOnceKv, timeout_s: float = 5.0) -> None:
        self._connection = jetstream.connection
        self._records = records
        self._prefix = jetstream.write_subject(bucket_prefix(records.bucket))
        self._timeout_s = timeout_s
        self._pending: dict[str, PendingCreate] = {}  # by inbox, oldest first
        self._count = 0
        self._inbox: str | None = None  # None: the first record opens it, and takes the careful way
        self._opening: asyncio.Task[None] | None = None
        self._careful: set[asyncio.Task[None]] = set()
        self._has_timer = False  # one for all: records come and go thousands of times within its five seconds
        self._now = steady

    def create(self, key: str, record: bytes) -> Deferred[bytes]:
        """The record under the key afterwards, and errors, as `WriteOnceKv.create`. It always ends, in time."""
        created: Deferred[bytes] = Deferred()
        if self._inbox is None or not self._records.has_room_for(record):
            self._opening = self._opening or asyncio.get_running_loop().create_task(self._open())
            self._create_carefully(key, record, created)
            return created
        self._count += 1
        inbox = f"{self._inbox}{self._count}"
        if not self._has_timer:
            self._start_timer(self._timeout_s)
        self._pending[inbox] = PendingCreate(key, record, self._now() + self._timeout_s, created)
        crashpoint("before_create")
        self._connection.publish_nowait(self._prefix + key, record, inbox, IS_FREE)
        return created

    async def _open(self) -> None:
        inbox = self._connection.new_inbox() + "."
        try:
            await self._connection.subscribe_bytes(inbox + "*", self._on_publish_ack)
        except (nats.errors.Error, OSError):  # the next record tries again
            self._opening = None
        else:
            self._inbox = inbox

    def _on_publish_ack(self, inbox: bytes, _reply: bytes, data: bytes, _head: bytes | None) -> None:
        pending = self._pending.pop(inbox.decode("utf-8", "replace"), None)
        if pending is None:
            return
        answer = read_publish_ack(data)  # None also for the empty answer of a server that has no such stream
        if answer is not None and answer.error is None:
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

    def _start_timer(self, seconds: float) -> None:
        self._has_timer = True
        asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        """End what has no publish ack in time. The timer runs as long as records wait."""
        self._has_timer = False
        now = self._now()
        while self._pending:
            inbox, pending = next(iter(self._pending.items()))
            if pending.until > now:
                self._start_timer(pending.until - now)
                return
            del self._pending[inbox]
            denied = self._connection.denials.find(self._prefix + pending.key)
            pending.created.resolve(denied or NoLeader(f"bucket {self._records.bucket}: no publish ack within {self._timeout_s:g} s"))
