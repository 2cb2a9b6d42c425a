"""A copy of one bucket in this process (no mirror stream of JetStream): every instance has the same
one within moments of a change.

    run ── list and follow ──> changed(all entries)      after the first listing, and after every change
      ^                  └ not complete any more: again from the start, into a new table
      |                  └ the newest shared info tells of a write that has not come: likewise
      |                  └ a minute old, and the bucket was written meanwhile: likewise
      └ the bucket is unavailable: the last known entries go on serving, and readiness says so

With `infos`, which its owner must keep fresh, the heartbeats of the watcher are rare: a missed
change is noticed by the next info of the bucket, and without a change nothing is missed. Without
them the watcher's heartbeats tell.

Knows nothing of what the entries mean. nats-py's own watcher is not used: it hears nothing for
12-18 s after a server's kill, and for ever after its bucket was made again
(docs/reference/contracts.md#bucket-mirror).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType

import nats.errors

from router.core.clock import steady
from router.core.errors import RouterError
from router.delivery.kv.entries import BucketEntry, DeletedKey
from router.delivery.kv.watcher import RARE_HEARTBEAT_S, BucketState, KvWatcher, read_state
from router.delivery.wire.api import JetStream
from router.delivery.wire.reconnecting import RetryTimer
from router.delivery.wire.shared_info import SharedInfo
from router.process.observability import ReadinessCheck, events, logs

log = logs.logger(__name__)

MIRROR_TICK_S = 0.05
# what was missed without a trace is missed no longer than this, if the bucket's state shows a
# change
REREAD_EVERY_S = 60.0
# a change that an info tells of has come by then; infos of other instances come over the same
# connection
ARRIVAL_S = 2.0
RETRY_FIRST_S, RETRY_MOST_S = 0.25, 3.0

OnChange = Callable[[Mapping[str, BucketEntry]], None]
OnReplaced = Callable[[], Awaitable[None]]


async def skip_seeding() -> None:
    """For a bucket that a process fills with what it learns."""


class BucketMirror:
    """A mirror of one bucket. `on_change` is called on the event loop with all entries, and must
    not raise.

    `on_replaced` is awaited before the entries of a bucket that was made anew are taken over; where
    it raises, it is called again.
    """

    def __init__(
        self,
        jetstream: JetStream,
        bucket: str,
        on_change: OnChange,
        *,
        on_replaced: OnReplaced,
        again_s: float = REREAD_EVERY_S,
        infos: SharedInfo | None = None,
    ) -> None:
        self._jetstream = jetstream
        self._infos = infos if infos is not None else SharedInfo(jetstream)
        self._heartbeat_s = RARE_HEARTBEAT_S if infos is not None else None
        self._bucket = bucket
        self._on_change = on_change
        self._on_replaced = on_replaced
        self._again_s = again_s
        self._table: dict[str, BucketEntry] | None = None  # None: never listed
        self._watcher: KvWatcher | None = None
        self._looked_at = 0.0
        self._retry = RetryTimer(RETRY_FIRST_S, RETRY_MOST_S)
        self._created = ""  # which bucket it is, by the time it was made
        self._state: BucketState | None = None  # of the bucket, when the last listing began
        self._cause: str | None = None  # why it is unavailable
        self._is_notifying = False

    @property
    def entries(self) -> Mapping[str, BucketEntry]:
        """All entries of the last known state."""
        return MappingProxyType(self._table or {})

    @property
    def check(self) -> ReadinessCheck:
        """Its line in /readyz."""
        if self._table is None:
            return ReadinessCheck(False, self._cause or "not listed yet")
        if not self._is_followed:
            return ReadinessCheck(
                False, f"{self._cause or 'not watched'}; the last known state serves"
            )
        return ReadinessCheck(True, f"{len(self._table)} entries")

    async def load(self) -> None:
        """List once, now, for a caller that must not start without the entries. Raises
        BrokerUnavailable.
        """
        await self._list()

    async def run(self) -> None:
        """Mirror the bucket until cancelled; it may be run again."""
        try:
            while True:
                if self._is_due():
                    await self._try()
                elif self._is_followed:
                    self._clear_cause()
                await asyncio.sleep(MIRROR_TICK_S)
        finally:
            following, self._watcher = self._watcher, None
            if following is not None:
                await following.close()

    def _is_due(self) -> bool:
        if not self._jetstream.connection.is_connected or not self._retry.is_due:
            return False
        return not self._is_followed or steady() - self._looked_at >= self._again_s

    @property
    def _is_followed(self) -> bool:
        """Whether every change arrives. A watcher whose server stood still for a while goes on by
        itself, without another listing.
        """
        return (
            self._watcher is not None
            and self._watcher.is_complete
            and not self._has_missed(self._watcher)
        )

    def _has_missed(self, watcher: KvWatcher) -> bool:
        """Whether the newest info of the bucket tells of a write that should have come, or of
        another bucket, or of none.
        """
        answer = self._infos.find_newest(f"STREAM.INFO.KV_{self._bucket}")
        if answer is None or answer.at < watcher.opened_at or steady() - answer.at < ARRIVAL_S:
            return False
        info = answer.info
        return (
            info is None
            or info["created"] != watcher.created
            or info["state"]["last_seq"] > watcher.last_stored
        )

    async def _try(self) -> None:
        self._retry.delay()
        try:
            if not self._is_followed or await self._has_changed():
                await self._list()
            self._looked_at = steady()
            self._retry.reset()
        except (RouterError, nats.errors.Error, OSError) as exc:
            if self._is_followed:
                return  # the listing only confirms what the watcher has
            if self._cause is None:
                log.error(
                    events.BUCKET_UNAVAILABLE,
                    bucket=self._bucket,
                    cause=str(exc),
                    in_force="the last known state",
                )
            self._cause = str(exc)

    async def _has_changed(self) -> bool:
        """Whether the bucket was written, or entries were removed, since the last listing began."""
        info = await self._infos.stream(f"KV_{self._bucket}", self._again_s / 2)
        return info is None or read_state(info) != self._state

    async def _list(self) -> None:
        """A new table beside the old one, which serves until the new one is whole."""
        table: dict[str, BucketEntry] = {}
        following = KvWatcher(
            self._jetstream,
            self._bucket,
            partial(self._on_entry, table),
            heartbeat_s=self._heartbeat_s,
        )
        try:
            await following.open()
        except BaseException:  # also a cancellation: the new watcher must not stay open
            await following.close()
            raise
        if self._created and self._created != following.created:
            await following.close()
            await self._take_over(following.created)
            return
        self._created = following.created
        before, self._watcher = self._watcher, following
        self._looked_at = steady()
        self._state = following.state
        self._install(table)
        if before is not None:
            await before.close()

    async def _take_over(self, created: str) -> None:
        """Another bucket of this name: the last known state serves until what is to be seeded
        stands in it.
        """
        await self._on_replaced()
        log.warning(events.BUCKET_REPLACED, bucket=self._bucket, created=created)
        self._created = created
        await self._list()

    def _install(self, table: dict[str, BucketEntry]) -> None:
        self._clear_cause()
        is_news = table != self._table
        self._table = table
        if is_news:
            self._notify()

    def _clear_cause(self) -> None:
        if self._cause is not None:
            log.info(events.BUCKET_AVAILABLE, bucket=self._bucket)
        self._cause = None

    def _on_entry(self, table: dict[str, BucketEntry], entry: BucketEntry | DeletedKey) -> None:
        if isinstance(entry, BucketEntry):
            table[entry.key] = entry
        else:
            table.pop(entry.key, None)
        if table is self._table and not self._is_notifying:
            self._is_notifying = True  # what came in one chunk is told once
            asyncio.get_running_loop().call_soon(self._notify)

    def _notify(self) -> None:
        self._is_notifying = False
        self._on_change(dict(self._table or {}))
