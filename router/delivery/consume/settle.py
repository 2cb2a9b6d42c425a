"""Settle a message: from an outcome to an ack, in one order and only one: effects published,
commit, what follows, reply, ack.

conclude ──> a first delivery failed: its attempt is counted before anything is decided
   └──> decide_settlement ──> publish ──> commit ──> then ──> reply, ack
                                 │                    └── there is more to store: publish
                                 ├── it is too large ──> a dead letter stands in for what is never stored
                                 ├── a stream refuses ──> only this message waits (`refused_storage`); where the places are taken it
                                 │                       is sent back, or the subscription pauses
                                 └── the broker does not answer ──> the subscription pauses; the first one is published again
                                                                    until it is stored, then all of
                                                                    them
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct

from router.core.crashpoints import crashpoint, crashpoint_sent
from router.core.message import Message, Reply
from router.core.outcome import PROCESSING_ERROR, Commit, Dead, Done, Fault, Outcome, Retry, Then
from router.delivery.consume.in_flight import (
    PUBLISHING_STATE,
    InFlight,
    InFlightMessage,
    MessageState,
)
from router.delivery.consume.outages import Outages, PauseSwitch
from router.delivery.consume.redeliveries import ATTEMPTS_UNAVAILABLE, RedeliveryTracker
from router.delivery.consume.refused_storage import RefusedStorage
from router.delivery.consume.settlement import (
    STREAM_REFUSES,
    TOO_LARGE,
    PendingSettlement,
    Settlement,
    decide_following_failure,
    decide_settlement,
    decide_without_bucket,
    decide_without_place,
    follow,
    nak,
    outcome_of_error,
    shorten_dead_letter,
)
from router.delivery.consume.subscription import ACK, REFUSED, SENT_BACK, WAITING, Subscription
from router.delivery.consume.task_pool import BackgroundTasks
from router.delivery.publish.acked_publisher import EffectPublisher, NotPublished, PublishAcks
from router.delivery.wire.connection import Connection
from router.delivery.wire.publish_faults import PublishFault, find_fault

PUBLISHING = "publishing"
ROOM = "room"

SendReply = Callable[[Message, Reply], None]


class SharedWork(Struct, frozen=True, kw_only=True):
    """What the processor of a subscription and its settler both work on."""

    in_flight: InFlight
    redeliveries: RedeliveryTracker
    pause_switch: PauseSwitch
    outages: Outages
    background_tasks: BackgroundTasks


class Settler:
    """Settles the messages of one subscription. It begins none: nothing here calls a handler."""

    def __init__(
        self,
        subscription: Subscription,
        work: SharedWork,
        *,
        connection: Connection,
        publisher: EffectPublisher,
        send_reply: SendReply,
    ) -> None:
        self._subscription = subscription
        self._connection = connection
        self._publisher = publisher
        self._in_flight = work.in_flight
        self._redeliveries = work.redeliveries
        self._pause_switch = work.pause_switch
        self._outages = work.outages
        self._background_tasks = work.background_tasks
        self._send_reply = send_reply
        self._observer = subscription.observer
        self.refused = RefusedStorage(subscription, publisher)
        # there is room again: the puller may ask for more
        self.on_capacity: Callable[[], None] = lambda: None

    def settle_plain(self, message: Message, done: Done, ack_subject: str) -> None:
        """The fast path: a Done that stores nothing, of a message that is not in flight; the same
        order, no Settlement object.
        """
        if done.reply is not None:
            self._send_reply(message, done.reply)
        self._connection.acknowledge(ack_subject)
        self._observer.on_settled(message, done, True)

    def conclude(self, message: Message, outcome: Outcome) -> None:
        """The outcome of a message that is in flight, or is not plain."""
        if (
            type(outcome) is Done
            and message.deliveries == 1
            and not outcome.effects
            and outcome.commit is None
        ):
            self.settle_plain(message, outcome, self._in_flight.pop(message))
            crashpoint("after_ack")
            self.on_capacity()
        elif (
            type(outcome) is Retry
            and outcome.uses_attempt
            and message.deliveries == 1
            and not message.revision
        ):
            self._count_or_send_back(message, outcome)
        else:
            self.settle(PendingSettlement(message, outcome, self._decide(message, outcome)))

    def _count_or_send_back(self, message: Message, outcome: Retry) -> None:
        """A first delivery failed. What is sent back uncounted has no record, so the process that
        gets it next assumes this attempt.
        """
        if self.can_count():
            held = self._in_flight.enter(message, MessageState.COUNTING)
            writer = self._redeliveries.name_writer(message)
            then = partial(self._on_failure_tried, held, outcome, writer)
            self._redeliveries.try_failure(message, writer, then)
            return
        is_overdue = self._in_flight.is_overdue(message)
        ack_subject = self._in_flight.pop(message)
        if not is_overdue:
            self._connection.publish_nowait(ack_subject, nak(self._subscription.options.full_retry))
        self._observer.on_storage_refused(message, message.subject, SENT_BACK)
        self.on_capacity()

    def can_count(self) -> bool:
        """Whether one more may wait until its attempt can be counted."""
        if not self._redeliveries.is_unavailable:
            return True
        return self._outages.has_room(
            len(self._in_flight.list_in(MessageState.COUNTING)), ATTEMPTS_UNAVAILABLE
        )

    def _on_failure_tried(
        self, held: InFlightMessage, outcome: Retry, writer: str, counted: Message | None
    ) -> None:
        if held.state is not MessageState.COUNTING:
            return  # a drain has handed it back
        if counted is not None:
            self.conclude(counted, outcome)
        else:
            self._background_tasks.start(self._count_failure(held, outcome, writer))

    async def _count_failure(self, held: InFlightMessage, outcome: Retry, writer: str) -> None:
        counted = await self._redeliveries.count_failure(held.message, writer)
        if counted.attempts == 1 and counted.is_recorded:
            # it was counted as the first attempt already, by the process that has the redelivery
            held.is_overdue = True
        self.conclude(counted, outcome)

    def _decide(self, message: Message, outcome: Outcome) -> Settlement:
        try:
            return decide_settlement(self._subscription, message, outcome)
        except Exception as exc:
            # a dead letter that cannot be built must neither lose its message nor end the consumer
            self._observer.on_handler_error(message, exc)
            return Settlement((), None, None, nak(self._subscription.options.backoff[-1]), False)

    def settle(self, pending: PendingSettlement) -> None:
        if pending.settlement.effects:
            self._in_flight.enter(pending.message, PUBLISHING_STATE)
            crashpoint("before_publish")
            self._publisher.publish(pending.settlement.effects, partial(self._on_result, pending))
            crashpoint_sent("after_publish")
        else:
            self._on_stored(pending, ())

    def _on_result(self, pending: PendingSettlement, result: PublishAcks | NotPublished) -> None:
        if not isinstance(result, NotPublished):
            self._on_stored(pending, result)
        elif find_fault(result.err_code) is PublishFault.MESSAGE:
            self._settle_unstorable(pending, result)
        elif self.refused.means(result):
            self._hold_back(pending, result)
        else:
            self._pause(pending, result)

    def _on_stored(self, pending: PendingSettlement, publish_acks: PublishAcks) -> None:
        if publish_acks:
            self._observer.on_stored(pending.message, publish_acks)
        settlement = pending.settlement
        if settlement.commit is not None:
            self._begin_commit(pending, settlement.commit, publish_acks)
        elif settlement.then is not None:
            self._begin_following(pending, settlement.then, publish_acks)
        else:
            self._finish(pending)

    def _begin_commit(
        self, pending: PendingSettlement, commit: Commit, publish_acks: PublishAcks
    ) -> None:
        try:
            committing = commit(publish_acks)
        except Exception as exc:  # as in `_commit`
            self._on_commit_failed(pending, exc)
            return
        if committing is None:
            self._on_committed(pending, publish_acks)
        else:
            self._in_flight.enter(pending.message, MessageState.COMMITTING)
            self._background_tasks.start_uncancelled(
                self._commit(pending, committing, publish_acks)
            )

    async def _commit(
        self, pending: PendingSettlement, committing: Awaitable[None], publish_acks: PublishAcks
    ) -> None:
        try:
            await committing
        except Exception as exc:
            # the handler's own store is unavailable: the effects stand, the message comes again
            self._on_commit_failed(pending, exc)
        else:
            self._on_committed(pending, publish_acks)

    def _on_committed(self, pending: PendingSettlement, publish_acks: PublishAcks) -> None:
        if pending.settlement.then is None:
            self._finish(pending)
        else:
            self._begin_following(pending, pending.settlement.then, publish_acks)

    def _begin_following(
        self, pending: PendingSettlement, then: Then, publish_acks: PublishAcks
    ) -> None:
        """Nearly always nothing follows, and it says so at once."""
        try:
            following = then(publish_acks)
        except Exception as exc:
            self._on_following_failed(pending, exc)
            return
        if following is None:
            self._finish(pending)
        elif isinstance(following, Done):
            self.settle(follow(pending, following))
        else:
            self._in_flight.enter(pending.message, MessageState.COMMITTING)
            self._background_tasks.start_uncancelled(self._follow(pending, following))

    async def _follow(self, pending: PendingSettlement, following: Awaitable[Done | None]) -> None:
        try:
            done = await following
        except Exception as exc:
            # what it had to read is unavailable: the effects stand, the message comes again
            self._on_following_failed(pending, exc)
            return
        if done is None:
            self._finish(pending)
        else:
            self.settle(follow(pending, done))

    def _on_following_failed(self, pending: PendingSettlement, exc: Exception) -> None:
        self.conclude(
            pending.message, decide_following_failure(self._subscription, pending.message, exc)
        )

    def _on_commit_failed(self, pending: PendingSettlement, exc: Exception) -> None:
        self.conclude(pending.message, outcome_of_error(self._subscription, pending.message, exc))

    def _finish(self, pending: PendingSettlement) -> None:
        message, outcome, settlement = pending.message, pending.outcome, pending.settlement
        # to the process that may have it by now
        is_left = not settlement.is_final and self._in_flight.is_overdue(message)
        ack_subject = self._in_flight.pop(message)
        crashpoint("after_commit")
        if settlement.reply is not None:
            self._send_reply(message, settlement.reply)
        if settlement.ack is not None and not is_left:
            if settlement.ack is ACK:
                self._connection.acknowledge(ack_subject)
            else:
                self._connection.publish_nowait(ack_subject, settlement.ack)
        crashpoint("after_ack")
        if settlement.is_final:
            if message.deliveries > 1:
                self._redeliveries.on_settled(
                    message, settlement.ack, is_exhausted=isinstance(outcome, Retry)
                )
        elif isinstance(outcome, Retry) and not is_left:
            self._redeliveries.on_sent_back(message, outcome)
        self.on_capacity()
        self._observer.on_settled(message, outcome, settlement.is_final)

    def _settle_unstorable(self, pending: PendingSettlement, refusal: NotPublished) -> None:
        """It is never stored as it is: a dead letter stands in for it; a dead letter gives up its
        payload, and then itself.
        """
        if not any(effect.is_dead_letter for effect in pending.settlement.effects):
            self._observer.on_storage_refused(pending.message, refusal.subject, REFUSED)
            self.conclude(pending.message, Dead(_fault_of(refusal), PROCESSING_ERROR))
            return
        self._report_unstored_dead_letter(pending, refusal)
        what, instead = shorten_dead_letter(pending)
        if what is not None:
            self._observer.on_storage_refused(pending.message, refusal.subject, what)
        self.settle(instead)

    def _hold_back(self, pending: PendingSettlement, refusal: NotPublished) -> None:
        self._report_unstored_dead_letter(pending, refusal)
        if self.refused.take(pending, refusal):
            self._in_flight.enter(pending.message, MessageState.WAITING_FOR_ROOM)
            self._background_tasks.start_once(ROOM, self._await_room)
            self._observer.on_storage_refused(pending.message, refusal.subject, WAITING)
            return
        if self.refused.is_told(pending, refusal):
            self._settle_unstorable(pending, refusal)
            return
        if self._is_kept(pending):
            self._pause(pending, refusal)
            return
        what, instead = decide_without_place(self._subscription, pending)
        self._observer.on_storage_refused(pending.message, refusal.subject, what)
        self._on_stored(instead, ())

    def _is_kept(self, pending: PendingSettlement) -> bool:
        """Whether it is never sent back: the server would count that, or its work would be done
        again.
        """
        options = self._subscription.options
        if options.pauses_above or not options.keeps_work:
            return options.pauses_above
        return isinstance(pending.outcome, Done) and not any(
            effect.is_dead_letter for effect in pending.settlement.effects
        )

    async def _await_room(self) -> None:
        async for pending, publish_acks in self.refused.retry():
            if publish_acks is None:
                self.settle(pending)
            elif isinstance(publish_acks, NotPublished):
                self._settle_unstorable(pending, publish_acks)
            else:
                self._on_stored(pending, publish_acks)

    def settle_without_bucket(self, message: Message) -> None:
        """It needs an unavailable bucket, and too many others wait for it."""
        what, instead = decide_without_bucket(self._subscription, message)
        self._observer.on_storage_refused(message, message.subject, what)
        self._on_stored(instead, ())

    def _report_unstored_dead_letter(
        self, pending: PendingSettlement, refusal: NotPublished
    ) -> None:
        if any(effect.is_dead_letter for effect in pending.settlement.effects):
            self._observer.on_dead_letter_unstored(pending.message, refusal.cause)

    def _pause(self, pending: PendingSettlement, refusal: NotPublished) -> None:
        self._in_flight.enter(pending.message, MessageState.UNSTORED).pending = pending
        self._report_unstored_dead_letter(pending, refusal)
        self._pause_switch.close(PUBLISHING, f"{refusal.subject} cannot be stored: {refusal.cause}")
        self._background_tasks.start_once(PUBLISHING, self._retry_publish)

    async def _retry_publish(self) -> None:
        """Publish the first one again until it is stored; then all of them go on.

        Others may become unstored while its publish ack is on its way, also one that came before
        it: each gets its own publish acks.
        """
        while unstored := self._list_unstored():
            await sleep(self._subscription.options.store_retry)
            first = unstored[0]
            result = await self._publisher.publish_and_wait(first.settlement.effects)
            if isinstance(result, NotPublished) and self._must_pause(first, result):
                continue
            others = [pending for pending in self._list_unstored() if pending is not first]
            self._pause_switch.open(PUBLISHING)
            self._on_result(first, result)
            for pending in others:
                self.settle(pending)

    def _must_pause(self, pending: PendingSettlement, refusal: NotPublished) -> bool:
        """Whether the subscription pauses for it: the broker is away, or too many wait for a stream
        already.
        """
        if find_fault(refusal.err_code) is PublishFault.MESSAGE:
            return False
        return not self.refused.means(refusal) or (
            self._is_kept(pending) and not self.refused.has_room(pending)
        )

    def _list_unstored(self) -> list[PendingSettlement]:
        return [
            held.pending
            for held in self._in_flight.list_in(MessageState.UNSTORED)
            if held.pending is not None
        ]


def _fault_of(refusal: NotPublished) -> Fault:
    """Why it is never stored, as its dead letter tells it."""
    text = f"{refusal.subject} cannot be stored: {refusal.cause}"
    if find_fault(refusal.err_code) is PublishFault.MESSAGE:
        return Fault(TOO_LARGE, text)
    return Fault(STREAM_REFUSES, text)
