"""Shares the openings and closings of provider breakers, and rate limits, between instances through
a bucket, within a second.

    note, note_limit ── the newest for each key ──> write (a child) ──> ROUTER_BREAKERS ──> follow (a child) ──> on_news, on_limits

When two instances write at once, the last write wins: both have observed the provider, the later
observation is better, and a wrong one costs one timeout, after which all instances probe again. A
transition that this instance has written, or is about to write, overrides older entries of the
bucket. While the broker is unavailable each instance uses its own observations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from router.contracts.stored_record import record_bytes
from router.core.breakers import CLOSED, HALF_OPEN, OPEN, BreakerTransition
from router.core.clock import Clock, steady, wall
from router.core.errors import Conflict, RouterError
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.shared_bucket import SharedBucket
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.policies.model import RemoteTransition
from router.policies.model.breaker_record import LIMITED, BreakerRecord, read_breaker_record
from router.process.observability import events

WRITE_RETRY_S = 0.25

Pair = tuple[str, str]  # tenant, provider
News = Mapping[Pair, RemoteTransition]
Limits = Mapping[Pair, float]  # seconds that are left


class SharedBreakers(SharedBucket):
    """`now` is the steady clock of the breakers: times in the bucket are converted to time spans
    when written and when read.
    """

    def __init__(
        self,
        jetstream: JetStream,
        bucket: str,
        node_id: str,
        *,
        now: Clock = steady,
        wall_clock: Clock = wall,
        infos: SharedInfo | None = None,
    ) -> None:
        super().__init__(jetstream, bucket, node_id, infos)
        self._now = now
        self._wall_clock = wall_clock
        self._on_news: Callable[[News], None] = lambda _: None
        self._on_limits: Callable[[Limits], None] = lambda _: None
        self._unwritten: dict[str, BreakerRecord] = {}
        self._wake = asyncio.Event()
        # of keys in the bucket: the newest revision that was applied, or written here
        self._known: dict[str, int] = {}
        self._newest = 0  # of the bucket: a lower one means that the bucket was recreated

    def attach(self, on_news: Callable[[News], None], on_limits: Callable[[Limits], None]) -> None:
        """Set the callbacks for transitions and rate limits of other instances."""
        self._on_news = on_news
        self._on_limits = on_limits

    def note(self, transition: BreakerTransition) -> None:
        """Queue a transition of this instance for writing. Half open is not shared: the others
        reach it by their timers.
        """
        if transition.state != HALF_OPEN:
            self._queue(self._record(transition))

    def note_limit(self, tenant_id: str, provider_id: str, left_s: float) -> None:
        """Queue a rate limit that this instance has heard of."""
        at_ms = round(self._wall_clock() * 1000)
        self._queue(
            BreakerRecord(
                tenant_id=tenant_id,
                provider_id=provider_id,
                state="limited",
                opened_at_ms=at_ms,
                until_ms=at_ms + round(left_s * 1000),
                node=self._node_id,
                life=self._life,
            )
        )

    def _queue(self, record: BreakerRecord) -> None:
        self._unwritten[record.key] = record
        self._wake.set()

    async def write(self) -> None:
        """A child of the tree: write queued transitions until cancelled; failed writes are
        repeated.
        """
        while True:
            if not self._unwritten:  # a restarted child goes on with the queue
                self._wake.clear()
                await self._wake.wait()
            try:
                for key, record in list(self._unwritten.items()):
                    await self._put(key, record)
            except RouterError:
                # `BucketMirror` logs it; the breakers go on with local observations
                await asyncio.sleep(WRITE_RETRY_S)

    def on_change(self, entries: Mapping[str, BucketEntry]) -> None:
        """Pass the entries that are new to `on_news`."""
        newest = max((entry.revision for entry in entries.values()), default=0)
        if newest < self._newest:
            self._known.clear()
        self._newest = newest
        news = [
            record
            for key, entry in entries.items()
            if (record := self._read_news(key, entry)) is not None
        ]
        self._on_news(
            {_pair(one): self._build_transition(one) for one in news if one.state != LIMITED}
        )
        self._on_limits(
            {_pair(one): self._find_left_s(one) for one in news if one.state == LIMITED}
        )
        for key in self._known.keys() - entries.keys():
            # a later one was written here, and has not come back yet
            if self._known[key] <= newest:
                del self._known[key]

    def _read_news(self, key: str, entry: BucketEntry) -> BreakerRecord | None:
        if key in self._unwritten or entry.revision <= self._known.get(key, 0):
            return None
        self._known[key] = entry.revision
        record = self.try_read(entry, read_breaker_record, events.BREAKER_UNREADABLE)
        return None if record is None or record.life == self._life else record

    def _build_transition(self, record: BreakerRecord) -> RemoteTransition:
        until = self._now() + self._find_left_s(record) if record.state == OPEN else None
        return RemoteTransition(until, record.opened_at_ms)

    def _find_left_s(self, record: BreakerRecord) -> float:
        return record.until_ms / 1000 - self._wall_clock()

    async def _put(self, key: str, record: BreakerRecord) -> None:
        """Replace the stored entry, whatever its revision. Raises BrokerUnavailable."""
        seen = self._mirror.entries.get(key)
        while True:
            try:
                revision = await self._documents.put(
                    key, record_bytes(record), revision=seen.revision if seen else None
                )
                break
            except Conflict:
                seen = await self._documents.get(key)
        self._known[key] = revision
        if self._unwritten.get(key) is record:
            del self._unwritten[key]
        self.on_change(self._mirror.entries)

    def _record(self, transition: BreakerTransition) -> BreakerRecord:
        tenant_id, _, provider_id = transition.name.partition("/")
        at_ms = round(self._wall_clock() * 1000)
        return BreakerRecord(
            tenant_id=tenant_id,
            provider_id=provider_id,
            state="closed" if transition.state == CLOSED else "open",
            opened_at_ms=transition.opened_at_ms or at_ms,
            until_ms=at_ms + round(transition.left_s * 1000) if transition.state == OPEN else 0,
            node=self._node_id,
            life=self._life,
        )


def _pair(record: BreakerRecord) -> Pair:
    return record.tenant_id, record.provider_id
