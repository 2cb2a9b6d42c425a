"""The supervised child that runs one durable pull consumer: it joins puller, processor and pause
switch.

    run = open -> watch (every quarter second: in-progress signals, overdue publish acks, missed
    heartbeats)
               -> drain, in this order: pull no more; NAK the messages whose handler has not
               started; let handlers finish
                  until the soft deadline; cancel them until the hard one; flush

A pull request that no frame answers is lost if it raced with a deletion of the durable, so the
consumer looks after two seconds. After two missed heartbeats the consumer asks the server whether
the durable exists, and pulls anew. It asks too when it has had no reason to pull for a while (it is
paused, or all slots are taken): silence proves nothing then. While nothing answers for the durable
it is not ready, and after some seconds it goes to another server, which also helps if the reader
has stopped. `create` makes a durable that was deleted; without it, or if it cannot, the consumer
waits for one.

Heartbeats on an idle durable are rare (`pull`) where its loss is told otherwise: on a single
server, by the connection; in a cluster, by the new leader of a durable with copies, which ends the
pull requests that the old one had.

Heartbeats come also from a leader that is cut off from its followers, for ten to twenty seconds. So
in a cluster the durable's info is asked for every few seconds, unless `quorum_seen_at` tells that
this server hears the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from router.core.errors import BrokerUnavailable, NoLeader, QuorumLost, RouterError
from router.core.message import Message
from router.delivery.consume.attempts import AttemptCounter
from router.delivery.consume.outages import PauseSwitch
from router.delivery.consume.processor import MessageProcessor
from router.delivery.consume.pull import Puller, PullLimits
from router.delivery.consume.settle import SendReply
from router.delivery.consume.subscription import Subscription
from router.delivery.publish.acked_publisher import AckedPublisher, EffectPublisher
from router.delivery.publish.batching_publisher import BatchingPublisher
from router.delivery.publish.known_effects import KnownEffects
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.reconnecting import RetryTimer
from router.delivery.wire.server_state import ServerPause
from router.delivery.wire.topology import Create, OnFound, ignore_durable, restore

CONSUMER_TICK_S = 0.25
# without an open pull request nothing else tells that the durable is out of reach
NOT_PULLING_CHECK_S = 5.0
# in a cluster: heartbeats do not tell that a leader has followers; longer than a round of the
# topology monitor
QUORUM_CHECK_S = 7.0
LEAVE_AFTER_S = 7.0  # without a sign of the durable; the election of a leader takes up to that
RETRY_FIRST_S, RETRY_MOST_S = 0.5, 1.0
# then the consumer checks that its durable is the same: a pull request is lost if it raced with a
# deletion
CHECK_AFTER_SILENCE_S = 2.0


class Health(Struct, frozen=True):
    """What readiness needs to know of a consumer."""

    is_pulling: bool
    is_there: bool  # its stream and its durable
    paused_for: str | None
    # some messages wait for room in a stream, or for a bucket; the others go on
    waits_for: str | None = None
    unreachable_for: str | None = None  # whether its durable is there cannot be told
    held_back: str | None = None  # the server's own pause of the durable, and what ends it

    @property
    def is_ready(self) -> bool:
        is_moving = self.paused_for is None and self.waits_for is None and self.held_back is None
        return self.is_pulling and self.is_there and is_moving

    @property
    def detail(self) -> str:
        if self.unreachable_for is not None:
            return f"unreachable: {self.unreachable_for}"
        if self.held_back is not None:
            return f"consumer_paused: {self.held_back}"
        if self.paused_for is not None:
            return f"paused: {self.paused_for}"
        if self.waits_for is not None:
            return f"some messages wait, the others go on: {self.waits_for}"
        if not self.is_there:
            return "its stream or consumer is missing"
        return "pulling" if self.is_pulling else "not pulling"


def _see_none() -> float:
    """Nothing else tells of a quorum."""
    return float("-inf")


class DrainDeadlines(Protocol):
    """Seconds that a drain may take, read when it begins, so that several consumers can share the
    time.
    """

    @property
    def soft(self) -> float: ...

    @property
    def hard(self) -> float: ...


class Deadlines(Struct, frozen=True):
    """DrainDeadlines that never change."""

    soft: float = 10.0
    hard: float = 15.0


class Consumer:
    """A subscription on a real durable."""

    def __init__(
        self,
        subscription: Subscription,
        jetstream: JetStream,
        *,
        attempts_bucket: str,
        create: Create | None = None,
        on_found: OnFound = ignore_durable,
        send_reply: SendReply = lambda *_: None,  # a sender that waits for no reply gets none
        deadlines: DrainDeadlines = Deadlines(),  # noqa: B008 - frozen
        quorum_seen_at: Callable[[], float] = _see_none,
    ) -> None:
        """`quorum_seen_at`: steady seconds of the newest sign that the connection's server is not
        cut off from the others.
        """
        self.subscription = subscription
        self._jetstream = jetstream
        self._connection = jetstream.connection
        self._attempts_bucket = attempts_bucket
        self._send_reply = send_reply
        self._create = create
        self._on_found = on_found
        self._deadlines = deadlines
        self._quorum_seen_at = quorum_seen_at
        # of the durable; None: it is missing, and could not be created
        self._identity: str | None = None
        self._is_troubled = False
        self._reconnects = self._connection.reconnect_count  # when the open pull requests were made
        # after how many reconnects the server was last asked: it is asked at once after each
        self._asked_in = -1
        self._checked_at = 0.0
        self._seen_at = 0.0  # when the server last told that the durable is there
        self._cause: str | None = None  # why that cannot be told
        # bounds the requests to a server that does not answer them
        self._retry = RetryTimer(RETRY_FIRST_S, RETRY_MOST_S)
        self._server_pause = ServerPause(jetstream, subscription.stream, subscription.durable)
        self.pause_switch = PauseSwitch(self._on_pause_changed)
        self.processor: MessageProcessor | None = None
        self.puller: Puller | None = None
        self.effect_publisher: EffectPublisher | None = None  # where effects go while it runs
        self.was_clean = True  # of the last drain

    @property
    def health(self) -> Health:
        is_pulling = (
            self.puller is not None and self.puller.is_pulling and self._connection.is_connected
        )
        return Health(
            is_pulling,
            self._identity is not None,
            self.pause_switch.cause,
            (self.processor.settler.refused.cause or self.processor.outages.cause)
            if self.processor
            else None,
            self._cause,
            self._server_pause.cause,
        )

    def is_in_hand(self, message: Message) -> bool:
        """Whether this process works on a message of its durable, or has sent it back and expects
        it again.
        """
        return self.processor is not None and self.processor.is_in_hand(message)

    async def run(self) -> None:
        """Run until cancelled, then drain. It may be run again."""
        self.processor = self.puller = self.effect_publisher = None
        self.pause_switch.reset()  # an earlier run may have ended while it was paused
        publisher = self._make_publisher()
        await publisher.open()
        try:
            await self._work(publisher)
        finally:
            await publisher.close()

    def _make_publisher(self) -> AckedPublisher:
        """The publisher of the subscription's effects: with batches, if its streams accept them."""
        kept_s, timeout_s = (
            self.subscription.publish_acks_kept,
            self.subscription.options.publish_timeout,
        )
        known_effects = KnownEffects(kept_s) if kept_s else None
        stream_of = self.subscription.stream_of
        if stream_of is None:
            return AckedPublisher(self._jetstream, timeout_s, known_effects)
        return BatchingPublisher(self._jetstream, timeout_s, known_effects, stream_of=stream_of)

    async def _work(self, publisher: AckedPublisher) -> None:
        attempt_counter = AttemptCounter(self._jetstream, publisher, self._attempts_bucket)
        async with asyncio.TaskGroup() as tasks:
            self.effect_publisher = publisher
            processor = self.processor = MessageProcessor(
                self.subscription,
                connection=self._connection,
                publisher=publisher,
                attempt_counter=attempt_counter,
                pause_switch=self.pause_switch,
                tasks=tasks,
                send_reply=self._send_reply,
            )
            puller = self.puller = self._make_puller(processor)
            processor.settler.on_capacity = puller.refill_soon
            ticking = tasks.create_task(self._tick(processor, publisher))
            try:
                await puller.open()
                await self._watch(puller)
            finally:
                self.effect_publisher = None
                await self._drain(puller, processor)
                ticking.cancel()

    def _make_puller(self, processor: MessageProcessor) -> Puller:
        subscription, options = self.subscription, self.subscription.options
        return Puller(
            self._connection,
            f"{self._jetstream.prefix}.CONSUMER.MSG.NEXT.{subscription.stream}.{subscription.durable}",
            PullLimits(
                prefetch=options.prefetch,
                prefetch_bytes=options.prefetch_bytes,
                expires=options.pull_expires,
                heartbeat=options.heartbeat,
            ),
            on_delivery=processor.on_delivery,
            free_capacity=processor.free_capacity,
            on_trouble=self._on_trouble,
        )

    async def _tick(self, processor: MessageProcessor, publisher: AckedPublisher) -> None:
        while True:
            await asyncio.sleep(CONSUMER_TICK_S)
            processor.tick(CONSUMER_TICK_S)
            publisher.expire()

    async def _watch(self, puller: Puller) -> None:
        self._seen_at = asyncio.get_running_loop().time()
        while True:
            if self._connection.is_closed:
                raise BrokerUnavailable("the connection is closed for good")
            if self._connection.is_connected:
                await self._look(puller)
            await asyncio.sleep(CONSUMER_TICK_S)

    async def _look(self, puller: Puller) -> None:
        now = asyncio.get_running_loop().time()
        silence = now - max(puller.state.heard_at, self._seen_at)
        most = 2.5 * puller.heartbeat_s if puller.outstanding else NOT_PULLING_CHECK_S
        if self._is_doubtful or silence > most:
            await self._ask_anew(puller, now)
        elif (
            puller.outstanding
            and puller.is_doubtful
            and min(silence, now - self._checked_at) > CHECK_AFTER_SILENCE_S
        ):
            await self._ask_anew(puller, now, only_if_lost=True)
        elif (
            self._connection.is_in_cluster
            and now - max(self._seen_at, self._quorum_seen_at()) > QUORUM_CHECK_S
        ):
            await self._ask_anew(puller, now, only_if_new=True)
        else:
            if not puller.is_doubtful:
                self._retry.reset()
            puller.refill()
            await self._look_for_pause(puller, now)

    async def _look_for_pause(self, puller: Puller, now: float) -> None:
        """Ask whether the server holds the durable back, where nothing was delivered for a while."""
        progress = puller.state.requests, puller.outstanding
        if (
            puller.outstanding
            and self._server_pause.is_due(progress, now)
            and await self._server_pause.look(now)
        ):
            self.subscription.observer.on_server_pause(self._server_pause.cause)

    @property
    def _is_doubtful(self) -> bool:
        return (
            self._is_troubled
            or self._identity is None
            or self._reconnects != self._connection.reconnect_count
        )

    async def _ask_anew(
        self, puller: Puller, now: float, *, only_if_lost: bool = False, only_if_new: bool = False
    ) -> None:
        """Ask for the durable, and pull anew: always, or only if the open pull request is lost, or
        only if the durable is another one.
        """
        reconnects = self._connection.reconnect_count
        if reconnects == self._asked_in and not self._retry.is_due:
            return
        self._asked_in = reconnects
        self._retry.delay()
        self._checked_at = now
        was_doubtful, before = self._is_doubtful, self._identity
        try:
            self._identity = await restore(
                self._jetstream,
                self.subscription.stream,
                self.subscription.durable,
                self._create,
                self._on_durable,
            )
        except RouterError as exc:
            await self._on_no_answer(puller, exc)
            return
        self._cause = None
        if self._identity is None or (
            only_if_lost and self._identity == before and await self._is_waited_for()
        ):
            return
        self._seen_at = asyncio.get_running_loop().time()
        if (
            not was_doubtful
            and (only_if_new or not puller.outstanding)
            and self._identity == before
        ):
            return  # it only was not pulling, or did not know that there is a quorum
        self._is_troubled = False
        self._reconnects = reconnects
        puller.reset()

    async def _on_durable(self, info: Json) -> None:
        if self.puller is not None:
            self.puller.lost_is_told = self._is_loss_told(info.get("cluster") or {})
        if self._server_pause.on_info(info):
            self.subscription.observer.on_server_pause(self._server_pause.cause)
        await self._on_found(info)

    def _is_loss_told(self, cluster: Json) -> bool:
        """Whether something other than missing heartbeats tells that the durable's leader is gone."""
        if self._jetstream.is_in_other_domain:
            return False  # a leaf node may be cut off from it
        if not self._connection.is_in_cluster:
            return True  # it is on our server: then the connection is lost too
        # the new leader knows the old one's pull requests; with one copy there is no new one
        return bool(cluster.get("replicas"))

    async def _on_no_answer(self, puller: Puller, exc: RouterError) -> None:
        self._identity, self._cause = None, str(exc)
        silence = asyncio.get_running_loop().time() - max(puller.state.heard_at, self._seen_at)
        if isinstance(exc, QuorumLost) or (isinstance(exc, NoLeader) and silence > LEAVE_AFTER_S):
            await self._connection.leave_server()

    async def _is_waited_for(self) -> bool:
        """Whether the server has an open pull request on the durable. If it has none, ours is lost."""
        try:
            info = await self._jetstream.consumer(
                self.subscription.stream, self.subscription.durable
            )
        except RouterError:
            return True  # without an answer, ours may be open
        return info is not None and info["num_waiting"] > 0

    def _on_trouble(self) -> None:
        self._is_troubled = True

    def _on_pause_changed(self, cause: str | None) -> None:
        if self.puller is not None and self.processor is not None:
            if cause is not None:
                self.puller.pause()
            else:
                self.processor.begin_queued()
                self.puller.resume()
        self.subscription.observer.on_flow(cause)

    async def _drain(self, puller: Puller, processor: MessageProcessor) -> None:
        processor.stop_taking()
        await puller.close()
        self.was_clean = await processor.drain(self._deadlines.soft, self._deadlines.hard)
        if self._connection.is_connected:
            await self._connection.flush_last()
