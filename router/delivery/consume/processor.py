"""From a delivery to an outcome: when a handler starts on a message, and what becomes of the
message until it answers.

    on_delivery --> first delivery -----------------------------> handler --> outcome --> `settle`
                \\-> redelivery: its attempt is recorded first ---^
                \\-> the subscription is paused: it waits
                \\-> it is large: it begins in its turn (`LargeMessages`)

A handler that returns a value costs no task, future or lock; one that returns a Deferred, whose
maker sees to its end, costs two calls; one that returns any other awaitable takes a slot
(`task_pool`), and waits for one if all are taken: a message whose handler needs no slot never waits
behind it. One that raises BrokerUnavailable pauses the subscription, or waits alone (`outages`):
the first such message is begun again at intervals, until its handler works; then the others are. No
attempt is spent.

Each state of a message is in its record (`in_flight`). A call never leads back to where it came
from: a settlement begins no other message. What waits is begun by the end of the pause, or by the
slot that comes free.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from functools import partial
from types import CoroutineType

from msgspec.structs import replace

from router.core.clock import steady
from router.core.deferred import Deferred, HoldableDeferred
from router.core.errors import BrokerUnavailable, StorageRefused
from router.core.message import NO_HEADERS, Message, parse_ack_subject
from router.core.outcome import PROCESSING_ERROR, Dead, Done, Fault, Outcome, Retry
from router.delivery.consume.attempts import AttemptCounter, AttemptRecord
from router.delivery.consume.in_flight import (
    LARGE_BYTES,
    HandlerCall,
    InFlight,
    InFlightMessage,
    LargeMessages,
    MessageState,
)
from router.delivery.consume.outages import Outages, PauseSwitch
from router.delivery.consume.redeliveries import (
    ATTEMPTS_EXHAUSTED,
    ATTEMPTS_UNAVAILABLE,
    IMMEDIATE_NAK_S,
    NOT_BEGUN,
    STUCK,
    HandBack,
    RedeliveryTracker,
)
from router.delivery.consume.settle import SendReply, Settler, SharedWork
from router.delivery.consume.settlement import BUCKET_REFUSES, nak, outcome_of_error
from router.delivery.consume.subscription import REFUSED, Subscription
from router.delivery.consume.task_pool import BackgroundTasks, PooledCall, PooledOutcome, TaskPool
from router.delivery.publish.acked_publisher import EffectPublisher
from router.delivery.wire.connection import Connection
from router.delivery.wire.frames import Headers

REFUSED_SUBJECT = Fault("subject_refused", "the subject is not in the allow list")
REPLIED_IN_PASSING = Done()  # from its passing copy
# handlers in a row: where one of a hundred waits, a dozen messages are pulled ahead
AT_ONCE_FOR_ONE_AHEAD = 8
HANDLER = "handler"
GIVEN_UP = -1.0  # in `refused_since`
EXAMINE = "examine"


class MessageProcessor:
    """The work of one subscription. `on_delivery` is the only way in."""

    def __init__(
        self,
        subscription: Subscription,
        *,
        connection: Connection,
        publisher: EffectPublisher,
        attempt_counter: AttemptCounter,
        pause_switch: PauseSwitch,
        tasks: asyncio.TaskGroup,
        send_reply: SendReply,
    ) -> None:
        options = subscription.options
        self.subscription = subscription
        self._subject = subscription.subject
        self._marks = subscription.replied_requests
        self._connection = connection
        self._pause_switch = pause_switch
        self._background_tasks = BackgroundTasks(tasks)
        self.in_flight = InFlight(connection, options.ack_wait)
        self._by_position = self.in_flight.by_position
        self.outages = Outages(subscription, pause_switch)
        self._redeliveries = RedeliveryTracker(
            subscription, connection, attempt_counter, self.outages
        )
        self._hand_back = HandBack(connection, self.in_flight, self._redeliveries)
        self.settler = Settler(
            subscription,
            SharedWork(
                in_flight=self.in_flight,
                redeliveries=self._redeliveries,
                pause_switch=pause_switch,
                outages=self.outages,
                background_tasks=self._background_tasks,
            ),
            connection=connection,
            publisher=publisher,
            send_reply=send_reply,
        )
        self._outcome_of_error = partial(outcome_of_error, subscription)
        self._task_pool = TaskPool(
            options.slots,
            options.handler_timeout,
            tasks,
            on_outcome=self._on_pooled_outcome,
            outcome_of_error=self._outcome_of_error,
        )
        self._without_slot: deque[PooledCall] = deque()  # in their order
        self._large = LargeMessages(connection, subscription.turns, self._begin_large)
        self.taken = 0  # first deliveries and others, since the consumer started
        self._newest = ""  # of the delivery that came last
        # a bound below the prefetch, while passing copies are answered
        self.most_held: int | None = None
        self._is_draining = False
        self._now = steady

    # -- in: once a message ------------------------------------------------------------------------

    def on_delivery(
        self, subject: str, ack_subject: str, data: bytes, headers: Headers | None
    ) -> bool:
        """Accept one delivery. Returns False for an unexplained redelivery, so that the caller
        shrinks its pull window to 1.
        """
        part = ack_subject.split(".")
        # `ack_subject.find_stream`, in place: this runs once a message
        at = 2 if len(part) == 9 else 4
        message = Message(
            self._subject or subject,
            data,
            headers or NO_HEADERS,
            part[at],
            part[at + 1],
            int(part[at + 3]),
            int(part[at + 5]),
            int(part[at + 2]),
            ack_subject,
        )
        self.taken += 1
        self._newest = ack_subject
        # nearly always empty, where handlers end at once and store nothing
        by_position = self._by_position
        if message.deliveries > 1 or (
            by_position and (message.sequence, message.stored_ns) in by_position
        ):
            return self._take_again(message)
        marks = self._marks
        if (
            marks is not None
            and (marks.by_hash or message.sequence in marks.by_sequence)
            and marks.take(message)
        ):
            self.settler.settle_plain(message, REPLIED_IN_PASSING, ack_subject)
            return True
        if not self._pause_switch.is_open or self._is_draining:
            self._take_later(message)
        elif len(data) < LARGE_BYTES:
            self._begin(message)
        else:
            self._large.put(self.in_flight.enter(message, MessageState.QUEUED))
        return True

    @property
    def pending(self) -> int:
        """What the stream held for this durable beyond the delivery that came last."""
        return parse_ack_subject(self._newest).pending if self._newest else 0

    @property
    def delivered(self) -> int:
        """How many deliveries this durable had made by then, to all its instances."""
        return parse_ack_subject(self._newest).consumer_sequence if self._newest else 0

    @property
    def newest_sequence(self) -> int:
        """The sequence of the delivery that came last; 0 before the first."""
        return parse_ack_subject(self._newest).sequence if self._newest else 0

    @property
    def newest_stored_at(self) -> float:
        """When the message of the delivery that came last was stored: seconds since the epoch, 0
        before the first.
        """
        return parse_ack_subject(self._newest).stored_ns / 1e9 if self._newest else 0.0

    def _take_later(self, message: Message) -> None:
        if self._is_draining:
            self._hand_back.refuse(message)
        else:
            self.in_flight.enter(message, MessageState.QUEUED)

    def _take_again(self, message: Message) -> bool:
        # the server gave up waiting for us: one copy is enough
        if (held := self.in_flight.find(message)) is not None:
            self.in_flight.renew(held, message.ack_subject)
            return True
        ack = self._redeliveries.find_last_ack(message) or (
            nak(IMMEDIATE_NAK_S) if self._is_draining else None
        )
        if ack is not None:
            self._connection.publish_nowait(message.ack_subject, ack)
            return True
        if (sent_back := self._redeliveries.pop_sent_back(message)) is not None:
            if not self.settler.can_count():
                self._connection.publish_nowait(
                    message.ack_subject, nak(self.subscription.options.full_retry)
                )
                return True
            held = self.in_flight.enter(message, MessageState.COUNTING)
            self._count(held, sent_back.record)
            return True
        self.subscription.observer.on_unexpected_redelivery(message)
        self.in_flight.enter(message, MessageState.UNEXPLAINED)
        self._background_tasks.start_once(EXAMINE, self._examine)
        return False

    @property
    def waiting_for_bucket(self) -> int:
        """How many messages wait for a bucket that is unavailable."""
        if self.outages.cause is None:
            return 0
        counted = (
            (MessageState.COUNTING, MessageState.UNEXPLAINED)
            if self._redeliveries.is_unavailable
            else ()
        )
        return len(self.in_flight.list_in(MessageState.UNAVAILABLE, *counted))

    def is_in_hand(self, message: Message) -> bool:
        """Whether it is in flight here, or was sent back and is expected again."""
        return message in self.in_flight or self._redeliveries.is_sent_back(message)

    def free_capacity(self) -> int:
        """How many more may be asked for. What we NAKed counts against the server's
        max_ack_pending, so it is bounded too.
        """
        options = self.subscription.options
        held = len(self.in_flight) - (
            self._task_pool.running if options.slots_beside_prefetch else 0
        )
        # What waits for room in a stream, or for a slot, keeps nothing from being taken.
        prefetch = (
            options.prefetch
            if self.most_held is None
            else self.most_held + len(self.settler.refused) + len(self._without_slot)
        )
        if options.prefetch_ahead:
            prefetch -= max(
                0, options.prefetch_ahead - self._task_pool.ended_at_once // AT_ONCE_FOR_ONE_AHEAD
            )
            # of few slots, one that waits for room in a stream is a large part
            prefetch += len(self.settler.refused)
        return (
            min(prefetch, options.prefetch)
            - held
            - max(0, self._redeliveries.delayed - options.max_delayed)
        )

    # -- redeliveries ------------------------------------------------------------------------------

    async def _examine(self) -> None:
        """One unexplained redelivery at a time, so that one that kills the process takes no
        neighbours along.
        """
        while unexplained := self.in_flight.list_in(MessageState.UNEXPLAINED):
            for held in unexplained:
                if held.state is MessageState.UNEXPLAINED:  # else a drain has handed it back
                    self.in_flight.enter(held.message, MessageState.COUNTING)
                    await self._count_and_begin(held, None)
                    if held.call is not None:
                        await _wait_until_over(held.call)

    def _count(self, held: InFlightMessage, record: AttemptRecord | None) -> None:
        """By one write, where the record is known and nothing is to be waited for."""
        if (
            record is None
            or not self._pause_switch.is_open
            or not self._redeliveries.is_attempt_left(record)
        ):
            self._background_tasks.start(self._count_and_begin(held, record))
            return
        writer = self._redeliveries.name_writer(held.message)
        then = partial(self._on_begin_tried, held, writer)
        self._redeliveries.try_begin(held.message, record, writer, then)

    def _on_begin_tried(self, held: InFlightMessage, writer: str, counted: Message | None) -> None:
        if held.state is not MessageState.COUNTING:  # a drain has handed it back
            if counted is not None:
                self._redeliveries.give_back(counted)
            return
        if counted is None:
            # not after the pause: this one may be the one that ends it
            self._background_tasks.start(self._insist_and_begin(held, None, writer))
            return
        held.message = counted
        self._begin(counted, is_held=True)

    async def _count_and_begin(self, held: InFlightMessage, record: AttemptRecord | None) -> None:
        await self._pause_switch.wait()
        await self._insist_and_begin(held, record)

    async def _insist_and_begin(
        self, held: InFlightMessage, record: AttemptRecord | None, writer: str = ""
    ) -> None:
        held.message, may_begin = await self._redeliveries.count_begin(held.message, record, writer)
        if may_begin:
            self._begin(held.message, is_held=True)
        else:
            self.settler.conclude(
                held.message, Retry(ATTEMPTS_EXHAUSTED)
            )  # its last attempt is used up: the settlement has the dead letter

    # -- begin -------------------------------------------------------------------------------------

    def _begin(
        self,
        message: Message,
        *,
        is_held: bool = False,
        waits_as: MessageState = MessageState.HANDLING,
    ) -> None:
        is_allowed = self.subscription.is_allowed
        outcome: Outcome | Awaitable[Outcome]
        try:
            outcome = (
                self.subscription.handle(message)
                if is_allowed is None or is_allowed(message.subject)
                else Retry(REFUSED_SUBJECT)
            )
        except BrokerUnavailable as exc:
            self._stall(message, exc)
            return
        except Exception as exc:  # whatever else a handler raises is an outcome too
            outcome = self._outcome_of_error(message, exc)
        # first: to ask whether it is awaitable costs more than the rest of this
        if type(outcome) is Done:
            if is_held or outcome.effects or outcome.commit is not None:
                self.settler.conclude(message, outcome)
            else:
                self.settler.settle_plain(message, outcome, message.ack_subject)
        elif isinstance(outcome, Deferred):
            self._add_deferred(message, outcome, waits_as)
        elif type(outcome) is CoroutineType or isinstance(outcome, Awaitable):
            # the first is a fifth of the second's cost
            self._put_into_slot(message, outcome, waits_as)
        else:
            self.settler.conclude(message, outcome)

    def _begin_large(self, held: InFlightMessage) -> None:
        """Its turn has come; unless a pause began, whose end begins it, or a drain has handed it
        back.
        """
        if held.state is MessageState.QUEUED and self._pause_switch.is_open:
            self._begin(held.message, is_held=True)

    def _add_deferred(
        self, message: Message, later: Deferred[Outcome], state: MessageState
    ) -> None:
        """An outcome that comes by a call: no task and no slot, because its maker resolves or
        cancels it.
        """
        self.in_flight.enter(message, state).call = later
        later.add_callback(partial(self._on_outcome, message))

    def _put_into_slot(
        self, message: Message, awaited: Awaitable[Outcome], state: MessageState
    ) -> None:
        call = PooledCall(message, awaited)
        if state is MessageState.HANDLING and self._task_pool.are_full:
            state = MessageState.WAITING_FOR_SLOT
            self._without_slot.append(call)
        else:
            # also one that is tried again: while the consumer is paused, no slot is given to those
            # that wait
            self._task_pool.put(call)
        self.in_flight.enter(message, state).call = call

    def _fill_slots(self) -> None:
        while self._without_slot and not self._task_pool.are_full:
            call = self._without_slot.popleft()
            if not call.is_over:  # a drain has handed it back
                self.in_flight.enter(call.message, MessageState.HANDLING)
                self._task_pool.put(call)

    def begin_queued(self) -> None:
        """The pause is over: give free slots to those that wait for one, and begin what is queued,
        until the next pause.
        """
        self._fill_slots()
        for held in self.in_flight.list_in(MessageState.QUEUED):
            if not self._pause_switch.is_open:
                return
            self._begin(held.message, is_held=True)

    # -- what came of it ---------------------------------------------------------------------------

    def _on_outcome(self, message: Message, outcome: Outcome | BaseException | None) -> None:
        """A handler that waited has ended; None: it was cancelled."""
        if outcome is not None and not isinstance(outcome, BaseException):
            self.settler.conclude(message, outcome)
        elif outcome is None or isinstance(outcome, asyncio.CancelledError):
            if (held := self.in_flight.find(message)) is not None and _is_held(held.call):
                self._redeliveries.give_back(message)
            self._hand_back.send(message)
        elif isinstance(outcome, BrokerUnavailable):
            self._stall(message, outcome)
        else:
            self.settler.conclude(message, self._outcome_of_error(message, outcome))

    def _on_pooled_outcome(self, message: Message, outcome: PooledOutcome) -> None:
        self._on_outcome(message, outcome)
        if self._without_slot and self._pause_switch.is_open:
            self._fill_slots()  # also while this one's effects are on their way, or wait for room

    # -- a handler finds the broker unavailable ----------------------------------------------------

    def _stall(self, message: Message, cause: BrokerUnavailable) -> None:
        held = self.in_flight.enter(message, MessageState.UNAVAILABLE)
        held.call = None
        if message.deliveries > 1:
            # its handler has read it, and will again: that is no other attempt
            held.message = replace(message, is_recorded=True)
        if self._is_draining:
            self._hand_back.send_all(MessageState.UNAVAILABLE)
            return
        has_room = self.outages.can_wait(
            len(self.in_flight.list_in(MessageState.UNAVAILABLE)) - 1, cause
        )
        held.refused_since = (held.refused_since or self._now()) if self._is_told(cause) else 0.0
        if held.refused_since and (not has_room or self._is_patience_over(held)):
            self._give_up_unavailable(held, cause)
            return
        if not has_room:
            self.settler.settle_without_bucket(held.message)
            return
        self.outages.begin(HANDLER, cause)
        self._background_tasks.start_once(HANDLER, self._retry_unavailable)

    def _is_told(self, cause: BrokerUnavailable) -> bool:
        """Whether a requester hears of it in the end: only an operator ends it, so it is of no use
        to ask again.
        """
        return isinstance(cause, StorageRefused) and self.subscription.overloaded is not None

    def _is_patience_over(self, held: InFlightMessage) -> bool:
        return 0.0 < held.refused_since <= self._now() - self.subscription.options.patience

    def _give_up_unavailable(self, first: InFlightMessage, cause: BrokerUnavailable) -> None:
        """This one, and every other whose patience is over: only the first is ever tried again."""
        over = [
            held
            for held in self.in_flight.list_in(MessageState.UNAVAILABLE)
            if held is not first and self._is_patience_over(held)
        ]
        for held in (first, *over):
            held.refused_since = GIVEN_UP
            self.subscription.observer.on_storage_refused(
                held.message, held.message.subject, REFUSED
            )
            self.settler.conclude(
                held.message, Dead(Fault(BUCKET_REFUSES, str(cause)), PROCESSING_ERROR)
            )

    async def _retry_unavailable(self) -> None:
        """Begin the first one again until its handler works; then the others wait their turn as if
        they were new.
        """
        while unavailable := self.in_flight.list_in(MessageState.UNAVAILABLE):
            await asyncio.sleep(self.subscription.options.store_retry)
            held = unavailable[0]
            self._begin(held.message, is_held=True, waits_as=MessageState.UNAVAILABLE)
            if held.call is not None:
                await _wait_until_over(held.call)
            # its handler works, and has its reasons
            if _is_held(held.call) and held.state is MessageState.UNAVAILABLE:
                self.in_flight.enter(held.message, MessageState.HANDLING)
            if held.state is MessageState.UNAVAILABLE or held.refused_since == GIVEN_UP:
                continue
            for other in self.in_flight.list_in(MessageState.UNAVAILABLE):
                self.in_flight.enter(other.message, MessageState.QUEUED)
            self.outages.end(HANDLER)
            if self._pause_switch.is_open:
                self.begin_queued()
        self.outages.end(HANDLER)

    # -- time, and the end -------------------------------------------------------------------------

    def tick(self, next_in_s: float) -> None:
        """Called by the subscription's timer, which comes again in so many seconds."""
        self.in_flight.signal(next_in_s)
        self._redeliveries.tick()
        if self._redeliveries.is_unavailable:
            self._send_back_excess()
        self._task_pool.end_overdue()
        if self._without_slot and self._pause_switch.is_open:
            # a handler that ignores its timeout never gives its slot back by itself
            self._fill_slots()

    def _send_back_excess(self) -> None:
        """Redeliveries whose attempts cannot be counted: those above the bound are NAKed, so that
        they take no room from the others.
        """
        for at, held in enumerate(self.in_flight.list_in(MessageState.UNEXPLAINED)):
            if not self.outages.has_room(at, ATTEMPTS_UNAVAILABLE):
                self._hand_back.send(held.message, self.subscription.options.full_retry)

    def stop_taking(self) -> None:
        """From now on deliveries are handed back, and so is what was never begun: it spends
        nothing.
        """
        self._is_draining = True
        self.settler.refused.abandon()
        self._hand_back.send_all(*NOT_BEGUN, *STUCK)
        if not self._pause_switch.is_open or self.outages.cause is not None:
            # else the one whose attempt is recorded already, or about to be, would begin
            self._background_tasks.end()
            self._hand_back.send_all(MessageState.COUNTING)

    async def drain(self, soft_s: float, hard_s: float) -> bool:
        """Let work finish until the soft deadline, cancel it until the hard one; True when nothing
        was cut off.
        """
        await self._wait_until_empty(soft_s)
        is_clean = not len(self.in_flight)
        self._background_tasks.end()
        self._hand_back.send_all(*NOT_BEGUN, *STUCK, MessageState.COUNTING)
        for held in self.in_flight.list_in(MessageState.HANDLING):
            if held.call is not None:
                held.call.cancel()
        await self._wait_until_empty(hard_s - soft_s)
        self._hand_back.send_all(*MessageState)
        self._task_pool.close()
        return is_clean

    async def _wait_until_empty(self, seconds: float) -> None:
        until = self._now() + seconds
        while len(self.in_flight) and self._now() < until:  # noqa: ASYNC110 - the end is no place for one more event per message
            await asyncio.sleep(0.01)


async def _wait_until_over(call: HandlerCall) -> None:
    """A handler that waits has ended, whatever came of it; or it holds its message, and no other
    has to wait for that.
    """
    if isinstance(call, PooledCall):
        await call.wait_until_over()
    elif isinstance(call, Deferred):
        over = asyncio.Event()
        call.add_callback(lambda _: over.set())
        if isinstance(call, HoldableDeferred):
            call.on_held(over.set)
        await over.wait()


def _is_held(call: HandlerCall | None) -> bool:
    return isinstance(call, HoldableDeferred) and call.is_held
