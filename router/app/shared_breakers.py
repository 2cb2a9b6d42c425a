"""What one instance learned of a provider is known to all within a second: openings and closings in a bucket.

    note ── the newest for each key ──> write (a child) ──> ROUTER_BREAKERS ──> follow (a child) ──> told

Two instances that write at once: the last one wins. Both saw the provider with their own eyes, the later look is the
better one, and a wrong one costs a timeout, after which everybody probes again. What this instance has written, or is
about to, overrules whatever stood there before. While the broker is away each instance goes by what it sees itself.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress

from router.breakers import CLOSED, HALF_OPEN, OPEN, BreakerTransition
from router.buckets.documents import DocumentBucket
from router.buckets.entries import BucketEntry
from router.buckets.mirror import BucketMirror
from router.clock import Clock, steady, wall
from router.contracts.breaker_record import BreakerRecord, breaker_key, breaker_record_bytes, read_breaker_record
from router.delivery.api import JetStream
from router.errors import BrokerUnavailable, Conflict, Poison, RouterError
from router.observability import LogRateLimit, events, logs
from router.policy import RemoteTransition

log = logs.logger(__name__)

RETRY_S = 0.25

News = Mapping[tuple[str, str], RemoteTransition]  # by (tenant, provider)


class SharedBreakers:
    """`now` is the breakers' steady clock, `today` the wall's: a moment in the bucket is turned into a span, at both ends."""

    def __init__(self, jetstream: JetStream, bucket: str, node_id: str, *, now: Clock = steady, today: Clock = wall) -> None:
        self._documents = DocumentBucket(jetstream, bucket)
        self._watched = BucketMirror(jetstream, bucket, self.heard)
        self._node_id = node_id
        self._life = uuid.uuid4().hex
        self._now = now
        self._today = today
        self._told: Callable[[News], None] = lambda _: None
        self._unwritten: dict[str, BreakerRecord] = {}
        self._wake = asyncio.Event()
        self._known: dict[str, int] = {}  # the newest revision of each key that was taken over, or written here
        self._newest = 0  # of the bucket: a lower one means another bucket
        self._lines = LogRateLimit(every_s=60.0)

    def attach(self, told: Callable[[News], None]) -> None:
        """Who is told of others' openings and closings."""
        self._told = told

    def note(self, transition: BreakerTransition) -> None:
        """One of this instance's own. Half open is nobody else's business: they come to it by the time."""
        if transition.state != HALF_OPEN:
            record = self._record(transition)
            self._unwritten[breaker_key(record.tenant_id, record.provider_id)] = record
            self._wake.set()

    async def load(self) -> None:
        """Once, before the first decision. A bucket that is away is no reason not to begin."""
        with suppress(BrokerUnavailable):
            await self._watched.load()

    async def follow(self) -> None:
        """A child of the tree: hear of others for ever."""
        await self._watched.run()

    async def write(self) -> None:
        """A child of the tree: tell others, for ever; what cannot be told now is told when the broker is back."""
        while True:
            if not self._unwritten:  # a child that was started again goes on where the one before ended
                self._wake.clear()
                await self._wake.wait()
            try:
                for key, record in list(self._unwritten.items()):
                    await self._put(key, record)
            except RouterError:  # `BucketMirror` has said so; what is seen here goes on
                await asyncio.sleep(RETRY_S)

    def heard(self, entries: Mapping[str, BucketEntry]) -> None:
        """All that stands in the bucket; what is not known yet is told on."""
        newest = max((entry.revision for entry in entries.values()), default=0)
        if newest < self._newest:
            self._known.clear()
        self._newest = newest
        self._told(dict(news for key, entry in entries.items() if (news := self._news(key, entry)) is not None))

    def _news(self, key: str, entry: BucketEntry) -> tuple[tuple[str, str], RemoteTransition] | None:
        if key in self._unwritten or entry.revision <= self._known.get(key, 0):
            return None
        self._known[key] = entry.revision
        try:
            record = read_breaker_record(key, entry.value)
        except Poison as exc:
            if self._lines.allow(key):
                log.error(events.BREAKER_UNREADABLE, key=key, error=str(exc))
            return None
        return None if record.life == self._life else ((record.tenant_id, record.provider_id), self._told_of(record))

    def _told_of(self, record: BreakerRecord) -> RemoteTransition:
        left_s = record.until_ms / 1000 - self._today()
        return RemoteTransition(self._now() + left_s if record.state == OPEN else None, record.opened_at_ms)

    async def _put(self, key: str, record: BreakerRecord) -> None:
        """Whatever stands there now is replaced. BrokerUnavailable."""
        seen = self._watched.entries.get(key)
        while True:
            try:
                revision = await self._documents.put(key, breaker_record_bytes(record), revision=seen.revision if seen else None)
                break
            except Conflict:
                seen = await self._documents.get(key)
        self._known[key] = revision
        if self._unwritten.get(key) is record:
            del self._unwritten[key]
        self.heard(self._watched.entries)

    def _record(self, transition: BreakerTransition) -> BreakerRecord:
        tenant_id, _, provider_id = transition.name.partition("/")
        at_ms = round(self._today() * 1000)
        return BreakerRecord(
            tenant_id=tenant_id,
            provider_id=provider_id,
            state="closed" if transition.state == CLOSED else "open",
            opened_at_ms=transition.opened_at_ms or at_ms,
            until_ms=at_ms + round(transition.left_s * 1000) if transition.state == OPEN else 0,
            node=self._node_id,
            life=self._life,
        )
