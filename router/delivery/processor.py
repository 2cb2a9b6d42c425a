"""From a delivery to a settlement: when a handler starts on a message, and what its outcome means.

    on_delivery --> first delivery ----------------------------> handler --> plain Done: `settle_plain`, else decide_settlement --> settle
                \\-> redelivery: its attempt is recorded first ---^  (`redeliveries`)
                \\-> the subscription is paused: it waits

A handler that returns a value costs no task, future or lock; one that returns a Deferred, whose maker sees to its end, costs
two calls; one that returns any other awaitable takes a slot (`task_pool`), and waits for one if all are taken: a message whose
handler needs no slot never waits behind it. One that raises BrokerUnavailable pauses the subscription until it can be begun with
success (`unavailable_retry`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine

from msgspec.structs import replace

from router.core.ack_subject import parse_ack_subject
from router.core.crashpoints import crashpoint
from router.core.deferred import Deferred
from router.core.errors import BrokerUnavailable
from router.core.message import NO_HEADERS, Message
from router.core.outcome import Done, Fault, Outcome, Retry
from router.delivery.acked_publisher import EffectPublisher
from router.delivery.attempts import AttemptCounter
from router.delivery.background_tasks import BackgroundTasks
from router.delivery.connection import Connection
from router.delivery.frame_parser import Headers
from router.delivery.in_flight import InFlight
from router.delivery.pause_switch import PauseSwitch
from router.delivery.pooled_call import PooledCall
from router.delivery.redeliveries import RedeliveryTracker
from router.delivery.settle import Answer, Settler
from router.delivery.settlement import PendingSettlement, Settlement, decide_settlement, nak, outcome_of
from router.delivery.subscription import Subscription
from router.delivery.task_pool import PooledOutcome, TaskPool
from router.delivery.unavailable_retry import UnavailableRetry

REFUSED_SUBJECT = Fault("subject_refused", "the subject is not in the allow list")
ANSWERED_LIVE = Done()  # from its live copy
IMMEDIATE_NAK_S = 0.01  # seconds, the server's floor: a NAK that spends nothing and hands the message to the next puller


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
        answer: Answer,
    ) -> None:
        self.subscription = subscription
        self._subject = subscription.subject
        self.in_flight = InFlight(connection, subscription.options.ack_wait)
        self.settler = Settler(
            subscription,
            connection=connection,
            publisher=publisher,
            in_flight=self.in_flight,
            pause_switch=pause_switch,
            tasks=tasks,
            answer=answer,
            on_finished=self._on_finished,
            on_commit_failed=lambda message, exc: self._conclude(message, self._outcome_of_error(message, exc)),
        )
        self._background_tasks = BackgroundTasks(tasks)
        self._again = RedeliveryTracker(
            subscription,
            connection=connection,
            in_flight=self.in_flight,
            attempt_counter=attempt_counter,
            pause_switch=pause_switch,
            background_tasks=self._background_tasks,
            begin=self._begin,
            conclude=self._conclude,
            send_back=self._send_back,
        )
        self._connection = connection
        self._pause_switch = pause_switch
        options, outcome_of_error = subscription.options, self._outcome_of_error
        self._task_pool = TaskPool(
            options.slots, options.handler_timeout, tasks, on_outcome=self._on_pooled_outcome, outcome_of_error=outcome_of_error
        )
        start_task = self._background_tasks.start
        self._stalled = UnavailableRetry(
            pause_switch, options.store_retry, begin=self._begin_stalled, on_available=self._on_available, start_task=start_task
        )
        self._waiting: deque[Message] = deque()  # held, not begun
        self._without_slot: deque[PooledCall] = deque()  # held, its handler asked and not yet awaited
        self._marks = subscription.live_marks
        self.taken = 0  # first deliveries and others, since the consumer started
        self._newest = ""  # the token of the delivery that came last
        self.most_held: int | None = None  # a bound below the prefetch, while live copies are answered
        self._is_draining = False
        self._is_catching_up = False
        self.on_capacity: Callable[[], None] = lambda: None  # there is room again: the puller may ask for more
        self._now = asyncio.get_running_loop().time

    # -- in: once a message --------------------------------------------------------------------------------------

    def on_delivery(self, subject: str, token: str, data: bytes, headers: Headers | None) -> bool:
        """Accept one delivery. Returns False for an unexplained redelivery, so that the caller shrinks its pull window to 1."""
        part = token.split(".")
        at = 2 if len(part) == 9 else 4  # `ack_subject.find_stream`, in place: this runs once a message
        message = Message(
            self._subject or subject,
            data,
            headers or NO_HEADERS,
            part[at],
            part[at + 1],
            int(part[at + 3]),
            int(part[at + 5]),
            int(part[at + 2]),
            token,
        )
        self.taken += 1
        self._newest = token
        if message.deliveries > 1:
            return self._take_again(message)
        if self._marks is not None and self._marks.counts and self._marks.take(message):
            self.settler.settle_plain(message, ANSWERED_LIVE, token)
            return True
        if self._is_busy:
            self._take_later(message)
        else:
            self._begin(message)
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
    def _is_busy(self) -> bool:
        return bool(self._waiting) or self._is_draining or not self._pause_switch.is_open

    def _take_later(self, message: Message) -> None:
        if self._is_draining:
            self._again.give_back(message)
            self._connection.publish_nowait(message.token, nak(IMMEDIATE_NAK_S))
        else:
            self.in_flight.add(message)
            self._waiting.append(message)

    def _take_again(self, message: Message) -> bool:
        if (held := self.in_flight.find(message)) is not None:  # the server gave up waiting for us: one copy is enough
            held.token = message.token
            return True
        if (ack := self._again.find_last_ack(message)) is not None:
            self._connection.publish_nowait(message.token, ack)
            return True
        if self._is_draining:
            self._connection.publish_nowait(message.token, nak(IMMEDIATE_NAK_S))
            return True
        self.in_flight.add(message)
        return self._again.on_redelivery(message)

    def free_capacity(self) -> int:
        """How many more may be asked for. What we sent away counts against the server's max_ack_pending, so it is bounded too."""
        options = self.subscription.options
        held = len(self.in_flight) - (self._task_pool.running if options.slots_beside_prefetch else 0)
        # What waits for room in a stream, or for a slot, keeps nothing from being taken.
        prefetch = options.prefetch if self.most_held is None else self.most_held + len(self.settler.refused) + len(self._without_slot)
        return min(prefetch, options.prefetch) - held - max(0, self._again.delayed - options.max_delayed)

    # -- begin ---------------------------------------------------------------------------------------------------

    def _begin(self, message: Message) -> None:
        try:
            outcome = self._call_handler(message)
        except BrokerUnavailable as exc:
            self._stall(message, exc)
            return
        if type(outcome) is Done and message.deliveries == 1 and _is_plain(outcome) and message not in self.in_flight:
            self.settler.settle_plain(message, outcome, message.token)
        elif isinstance(outcome, Deferred):
            self._add_deferred(message, outcome)
        elif isinstance(outcome, Awaitable):
            self._put_into_slot(message, outcome)
        else:
            self._conclude(message, outcome)

    def _put_into_slot(self, message: Message, awaited: Awaitable[Outcome]) -> None:
        turn = self.in_flight.add(message).task = PooledCall(message, awaited)
        if self._task_pool.are_full:
            self._without_slot.append(turn)
        else:
            self._task_pool.put(turn)

    def _call_handler(self, message: Message) -> Outcome | Awaitable[Outcome]:
        """The handler's answer; raises BrokerUnavailable alone."""
        try:
            return self.subscription.handle(message) if self._is_allowed(message) else Retry(REFUSED_SUBJECT)
        except BrokerUnavailable:
            raise
        except Exception as exc:  # whatever else a handler raises is an outcome too
            return self._outcome_of_error(message, exc)

    def _is_allowed(self, message: Message) -> bool:
        return self.subscription.is_allowed is None or self.subscription.is_allowed(message.subject)

    def _add_deferred(self, message: Message, later: Deferred[Outcome]) -> None:
        """An outcome that comes by a call: no task and no slot, because its maker resolves or cancels it."""
        self.in_flight.add(message).task = later
        later.add_callback(lambda outcome: self._on_resolved(message, outcome))

    def _on_resolved(self, message: Message, outcome: Outcome | BaseException) -> None:
        if not isinstance(outcome, BaseException):
            self._conclude(message, outcome)
        elif isinstance(outcome, asyncio.CancelledError):
            self._send_back(message)
        elif isinstance(outcome, BrokerUnavailable):
            self._stall(message, outcome)
        else:
            self._conclude(message, self._outcome_of_error(message, outcome))

    def _on_pooled_outcome(self, message: Message, outcome: PooledOutcome) -> None:
        if outcome is None:
            self._send_back(message)
        elif isinstance(outcome, BrokerUnavailable):
            self._stall(message, outcome)
        else:
            self._conclude(message, outcome)
        if self._without_slot and self._pause_switch.is_open:
            self.begin_queued()  # also while this one's effects are on their way, or wait for room

    # -- the broker is away for a handler ------------------------------------------------------------------------

    def _stall(self, message: Message, cause: BrokerUnavailable) -> None:
        if message.deliveries > 1:
            message = replace(message, is_recorded=True)  # its handler has read it, and will again: that is no other attempt
        self.in_flight.add(message).task = None
        self._stalled.take(message, cause)

    async def _begin_stalled(self, message: Message) -> Outcome:
        outcome = self._call_handler(message)
        if not isinstance(outcome, Awaitable):
            return outcome
        try:
            async with asyncio.timeout(self.subscription.options.handler_timeout):
                return await outcome
        except BrokerUnavailable:
            raise
        except (Exception, asyncio.CancelledError) as exc:
            outcome_instead = self._task_pool.outcome_instead(message, exc)
            if outcome_instead is None:
                raise
            return outcome_instead

    def _on_available(self, message: Message, outcome: Outcome, others: list[Message]) -> None:
        self._waiting.extendleft(reversed(others))
        self._conclude(message, outcome)

    # -- what came of it -----------------------------------------------------------------------------------------

    def _outcome_of_error(self, message: Message, exc: BaseException) -> Outcome:
        """Our own errors say what they mean; any other is a failure of the handler, and an alarm."""
        outcome = outcome_of(exc)
        if isinstance(outcome, Retry):
            self.subscription.observer.on_handler_error(message, exc)
        return outcome

    def _conclude(self, message: Message, outcome: Outcome) -> None:
        if type(outcome) is Done and message.deliveries == 1 and _is_plain(outcome):
            self.settler.settle_plain(message, outcome, self.in_flight.pop(message))
            crashpoint("after_ack")
            self.begin_queued()
            self.on_capacity()
            return
        if type(outcome) is Retry and outcome.uses_attempt and message.deliveries == 1 and not message.revision:
            self.in_flight.add(message)
            self._again.count_failure(message, outcome)  # and concluded again, with its number
            return
        try:
            settlement = decide_settlement(self.subscription, message, outcome)
        except Exception as exc:  # a dead letter that cannot be built must neither lose its message nor end the consumer
            self.subscription.observer.on_handler_error(message, exc)
            settlement = Settlement((), None, None, nak(self.subscription.options.backoff[-1]), False)
        self.settler.settle(PendingSettlement(message, outcome, settlement))

    def _on_finished(self, pending: PendingSettlement) -> None:
        if pending.settlement.is_final:
            self._again.on_settled(pending.message, pending.settlement.ack, is_exhausted=isinstance(pending.outcome, Retry))
        elif isinstance(pending.outcome, Retry):
            self._again.on_sent_back(pending.message, pending.outcome)
        self.begin_queued()
        self.on_capacity()

    def begin_queued(self) -> None:
        """Give free slots to those that wait for one; begin what waits, while the pause switch is open."""
        if self._is_catching_up:
            return  # called for one that it began itself: a full prefetch would be a stack too deep
        self._is_catching_up = True
        try:
            while self._without_slot and not self._task_pool.are_full:
                self._task_pool.put(self._without_slot.popleft())
            while self._waiting and self._pause_switch.is_open:
                self._begin(self._waiting.popleft())
        finally:
            self._is_catching_up = False

    # -- time, and the end ---------------------------------------------------------------------------------------

    def tick(self, next_in_s: float = 0.0) -> None:
        """Called by the subscription's timer, which comes again in so many seconds."""
        self.in_flight.signal(next_in_s)
        self._again.tick()
        self._task_pool.end_overdue()

    def stop_taking(self) -> None:
        """From now on deliveries are handed back, and so is what was never begun: it spends nothing."""
        self._is_draining = True
        for message in self.settler.refused.abandon():
            self._send_back(message)
        if not self._pause_switch.is_open:
            for message in self.settler.abandon():
                self._send_back(message)
            for message in self._stalled.abandon():
                self._again.give_back(message)
                self._send_back(message)
            self._background_tasks.end()  # else the message under examination would begin: its attempt is recorded already, or about to be
        for turn in self._without_slot:
            self._waiting.append(turn.message)
            turn.end()
            if isinstance(turn.awaited, Coroutine):
                turn.awaited.close()  # never awaited: it has done nothing
        self._without_slot.clear()
        for message in self._waiting:
            self._again.give_back(message)
            self._send_back(message)
        for message in self._again.stop():
            self._send_back(message)
        self._waiting.clear()

    async def drain(self, soft_s: float, hard_s: float) -> bool:
        """Let work finish until the soft deadline, cancel it until the hard one; True when nothing was cut off."""
        await self._wait_until_empty(soft_s)
        is_clean = not len(self.in_flight)
        for message in (*self.settler.abandon(), *self.settler.refused.abandon()):
            self._send_back(message)
        self._background_tasks.end()
        for task in [held.task for held in self.in_flight if held.task is not None]:
            task.cancel()
        await self._wait_until_empty(hard_s - soft_s)
        for held in self.in_flight:
            self._send_back(held.message)
        return is_clean

    async def _wait_until_empty(self, seconds: float) -> None:
        until = self._now() + seconds
        while len(self.in_flight) and self._now() < until:  # noqa: ASYNC110 - the end is no place for one more event per message
            await asyncio.sleep(0.01)

    def _send_back(self, message: Message) -> None:
        self._connection.publish_nowait(self.in_flight.pop(message), nak(IMMEDIATE_NAK_S))


def _is_plain(done: Done) -> bool:
    return not done.effects and done.commit is None
