"""One durable pull consumer, driven: the supervised child that joins puller, desk and gate.

    run = open -> watch (every quarter second: signals, receipts that did not come, heartbeats that did not come)
               -> drain, in this order: ask for nothing more; hand back what was never begun; let work finish
                  until the soft deadline; cancel it until the hard one; flush

Two heartbeats missed: ask the server what is true, and pull anew. Four: reconnect, which also revives a reader
that went deaf. A consumer that is gone is restored by `restore` (topology), or waited for; never a silent stall.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from msgspec import Struct

from router.delivery.acked_publisher import AckedPublisher, EffectPublisher
from router.delivery.api import JetStream
from router.delivery.attempts import AttemptCounter
from router.delivery.batching_publisher import BatchingPublisher
from router.delivery.known_effects import KnownEffects
from router.delivery.pause_switch import PauseSwitch
from router.delivery.processor import MessageProcessor
from router.delivery.pull import Puller
from router.delivery.settle import Answer
from router.delivery.subscription import Subscription
from router.errors import BrokerUnavailable, RouterError

TICK_S = 0.25
QUIET_S = 2.0  # a pull request that raced with a deletion is lost without a word: a quiet lane asks whether its durable is the same


class Health(Struct, frozen=True):
    """What readiness asks of a lane."""

    is_pulling: bool
    is_there: bool  # its stream and its durable
    paused_for: str | None
    waits_for: str | None = None  # some messages do, for a stream without room; the others go on

    @property
    def is_ready(self) -> bool:
        return self.is_pulling and self.is_there and self.paused_for is None and self.waits_for is None

    @property
    def detail(self) -> str:
        if self.paused_for is not None:
            return f"paused: {self.paused_for}"
        if self.waits_for is not None:
            return f"some messages wait, the others go on: {self.waits_for}"
        if not self.is_there:
            return "its stream or consumer is missing"
        return "pulling" if self.is_pulling else "not pulling"


class DrainDeadlines(Protocol):
    """Seconds that a drain may take, asked when it begins: who drains several lanes lets them share the time."""

    @property
    def soft(self) -> float: ...

    @property
    def hard(self) -> float: ...


class Deadlines(Struct, frozen=True):
    """The same seconds for every drain."""

    soft: float = 10.0
    hard: float = 15.0


class Consumer:
    """A lane on a real durable."""

    def __init__(
        self,
        lane: Subscription,
        jetstream: JetStream,
        *,
        starts_bucket: str,
        answer: Answer,
        restore: Callable[[], Awaitable[str | None]],
        deadlines: DrainDeadlines = Deadlines(),  # noqa: B008 - frozen
    ) -> None:
        self.lane = lane
        self._jetstream = jetstream
        self._connection = jetstream.connection
        self._starts_bucket = starts_bucket
        self._answer = answer
        self._restore = restore  # the durable's identity; None: it is not there, and cannot be made
        self._deadlines = deadlines  # asked when the drain begins
        self._identity: str | None = None
        self._is_troubled = False
        self._life = self._connection.reconnect_count  # the connection's, when the open pull requests were made
        self._checked_at = 0.0
        self.gate = PauseSwitch(self._gate_changed)
        self.desk: MessageProcessor | None = None
        self.puller: Puller | None = None
        self.storing: EffectPublisher | None = None  # where effects go while it runs
        self.was_clean = True  # of the last drain

    @property
    def health(self) -> Health:
        is_pulling = self.puller is not None and self.puller.is_pulling and self._connection.is_connected
        return Health(is_pulling, self._identity is not None, self.gate.cause, self.desk.settler.refused.cause if self.desk else None)

    async def run(self) -> None:
        """Until cancelled; then it drains. It may be run again."""
        self.desk = self.puller = self.storing = None
        self.gate.reset()  # an earlier life may have ended while it was paused
        known = KnownEffects(self.lane.receipts_kept) if self.lane.receipts_kept else None
        evidence = AckedPublisher(self._jetstream, self.lane.pace.evidence_timeout, known)
        await evidence.open()
        try:
            await self._work(evidence)
        finally:
            await evidence.close()

    async def _work(self, evidence: AckedPublisher) -> None:
        starts = AttemptCounter(self._jetstream, evidence, self._starts_bucket)
        async with asyncio.TaskGroup() as tasks, self._storing(evidence, tasks) as storing:
            self.storing = storing
            desk = self.desk = MessageProcessor(
                self.lane,
                connection=self._connection,
                evidence=storing,
                starts=starts,
                gate=self.gate,
                tasks=tasks,
                answer=self._answer,
            )
            puller = self.puller = self._make_puller(desk)
            desk.freed = puller.refill_soon
            ticking = tasks.create_task(self._tick(desk, evidence))
            try:
                await puller.open()
                await self._watch(puller)
            finally:
                self.storing = None
                await self._drain(puller, desk)
                ticking.cancel()

    @asynccontextmanager
    async def _storing(self, evidence: AckedPublisher, tasks: asyncio.TaskGroup) -> AsyncIterator[EffectPublisher]:
        """Where a lane's effects go: into batches, where its streams take them."""
        if self.lane.stream_of is None:
            yield evidence
            return
        timeout_s = self.lane.pace.evidence_timeout
        together = BatchingPublisher(self._jetstream, evidence, stream_of=self.lane.stream_of, tasks=tasks, timeout_s=timeout_s)
        await together.open()
        try:
            yield together
        finally:
            await together.close()

    def _make_puller(self, desk: MessageProcessor) -> Puller:
        lane = self.lane
        return Puller(
            self._connection,
            f"{self._jetstream.prefix}.CONSUMER.MSG.NEXT.{lane.stream}.{lane.durable}",
            prefetch=lane.pace.prefetch,
            prefetch_bytes=lane.pace.prefetch_bytes,
            expires_s=lane.pace.pull_expires,
            heartbeat_s=lane.pace.heartbeat,
            deliver=desk.take,
            room=desk.room,
            trouble=self._in_trouble,
        )

    async def _tick(self, desk: MessageProcessor, evidence: AckedPublisher) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            desk.tick(TICK_S)
            evidence.expire()

    async def _watch(self, puller: Puller) -> None:
        while True:
            if self._connection.is_closed:  # for good: a clear end is better than a deaf process
                raise BrokerUnavailable("the connection is closed for good")
            if self._connection.is_connected:
                await self._look(puller)
            await asyncio.sleep(TICK_S)

    async def _look(self, puller: Puller) -> None:
        now = asyncio.get_running_loop().time()
        silence = now - puller.state.heard_at if puller.outstanding else 0.0
        if silence > 4.5 * self.lane.pace.heartbeat:
            puller.state.heard_at = now
            await self._connection.force_reconnect()
        elif self._is_doubtful or silence > 2.5 * self.lane.pace.heartbeat:
            await self._ask_anew(puller, now)
        elif silence > QUIET_S and now - self._checked_at > QUIET_S:
            await self._ask_anew(puller, now, only_if_lost=True)
        else:
            puller.refill()

    @property
    def _is_doubtful(self) -> bool:
        return self._is_troubled or self._identity is None or self._life != self._connection.reconnect_count

    async def _ask_anew(self, puller: Puller, now: float, *, only_if_lost: bool = False) -> None:
        life = self._connection.reconnect_count
        if life == self._life and now - self._checked_at < 2 * TICK_S:
            return  # not more often: the server has enough to do
        self._checked_at = now
        before = self._identity
        try:
            self._identity = await self._restore()
        except RouterError:
            self._identity = None
            return
        if self._identity is None or (only_if_lost and self._identity == before and await self._is_waited_for()):
            return
        self._is_troubled = False
        self._life = life
        puller.reset()

    async def _is_waited_for(self) -> bool:
        """Whether the server has any pull request open on the durable: with none, ours is lost."""
        try:
            info = await self._jetstream.consumer(self.lane.stream, self.lane.durable)
        except RouterError:
            return True  # no answer is no proof
        return info is not None and info["num_waiting"] > 0

    def _in_trouble(self) -> None:
        self._is_troubled = True

    def _gate_changed(self, cause: str | None) -> None:
        if self.puller is not None and self.desk is not None:
            if cause is not None:
                self.puller.pause()
            else:
                self.desk.begin_queued()
                self.puller.resume()
        self.lane.observer.on_flow(cause)

    async def _drain(self, puller: Puller, desk: MessageProcessor) -> None:
        desk.stop_taking()
        await puller.close()
        self.was_clean = await desk.drain(self._deadlines.soft, self._deadlines.hard)
        if self._connection.is_connected:
            await self._connection.flush()
