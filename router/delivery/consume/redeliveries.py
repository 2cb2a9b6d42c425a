"""Messages that come again: what a process knows of them, the counting of their attempts in the
record that all processes share, and messages that it gives back itself.

    settled a moment ago      --> it crossed its last ack on the wire: that ack is sent again,
                              nothing is begun
    we NAKed it ourselves     --> its attempt is counted, from the entry as we wrote it; then it is
                              begun, and stands in no queue
    it is unexplained         --> its entry is read, its attempt counted, and it is begun, one at a
                              time
    a first delivery failed   --> its attempt is counted before its outcome is judged

No process trusts its own count: if another one has written since, its entry holds (`attempts`).
While attempts cannot be counted the subscription pauses, or the messages wait whose attempts must
be (`outages`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from heapq import heappop, heappush
from typing import TypeVar

from msgspec import Struct

from router.core.clock import delay_after, steady
from router.core.errors import BrokerRefused, BrokerUnavailable, RouterError, StorageRefused
from router.core.message import Message
from router.core.outcome import Fault, Retry
from router.delivery.consume.attempts import AttemptCounter, AttemptRecord, Tried
from router.delivery.consume.in_flight import InFlight, MessageState
from router.delivery.consume.outages import Outages
from router.delivery.consume.settlement import nak
from router.delivery.consume.subscription import Subscription
from router.delivery.wire.connection import Connection
from router.delivery.wire.publish_faults import PublishFault, find_fault

ATTEMPTS_EXHAUSTED = Fault(
    "internal",
    (
        "begun as often as allowed, and no attempt settled it: its process died, or its dead "
        "letter found no room"
    ),
)
ATTEMPTS_UNAVAILABLE = "attempts"
MAX_SETTLED = 10_000  # of the messages that came more than once, so many are known after their end
MAX_SENT_BACK = 50_000  # or twice `max_delayed`: other processes may have had many of them by now

T = TypeVar("T")
# the message with its number; None: it is not counted yet, and `count_…` goes on
TriedCallback = Callable[[Message | None], None]


class Ended(Struct, frozen=True):
    """What was said last of a message, of which delivery, in which life of the connection. `until`:
    steady seconds.
    """

    ack: bytes
    deliveries: int
    reconnect_count: int
    until: float


class SentBack(Struct):
    """A message that this process NAKed: its entry as this process wrote it. Times are steady
    seconds.
    """

    record: AttemptRecord | None
    until: float  # when to forget it
    due: float  # when it can come again
    is_delayed: bool = True  # counted in `delayed`


class RedeliveryTracker:
    """Of one subscription. It starts no handler and no task: its callers do."""

    def __init__(
        self,
        subscription: Subscription,
        connection: Connection,
        attempt_counter: AttemptCounter,
        outages: Outages,
    ) -> None:
        self._subscription = subscription
        self._connection = connection
        self._attempt_counter = attempt_counter
        self._outages = outages
        self._one_retries = asyncio.Lock()
        self._sent_back: OrderedDict[tuple[int, int], SentBack] = OrderedDict()  # oldest first
        # a heap of them, by when they can come again
        self._due: list[tuple[float, tuple[int, int]]] = []
        self._delayed = 0
        # oldest first; its marks are gone, so nothing else tells
        self._settled: OrderedDict[tuple[int, int], Ended] = OrderedDict()
        self._now = steady

    def pop_sent_back(self, message: Message) -> SentBack | None:
        """Why it comes again: this process NAKed it. None: its redelivery is unexplained."""
        return self._drop((message.sequence, message.stored_ns))

    def is_sent_back(self, message: Message) -> bool:
        """Whether this process NAKed it, and expects it again."""
        return (message.sequence, message.stored_ns) in self._sent_back

    def find_last_ack(self, message: Message) -> bytes | None:
        """The last ack of a message that is settled, if this delivery left the server before it
        heard it.

        A durable that was made anew counts deliveries from one: what it delivers is meant. So is
        what a server delivers that was away: it may have lost the effects along with the ack, and
        they are to be stored again.
        """
        ended = self._settled.get((message.sequence, message.stored_ns))
        if (
            ended is None
            or message.deliveries <= ended.deliveries
            or ended.reconnect_count != self._connection.reconnect_count
        ):
            return None
        self._subscription.observer.on_unexpected_redelivery(message)
        return ended.ack

    @property
    def delayed(self) -> int:
        """How many we NAKed, and cannot come again yet. What can waits for a pull request, so it
        must not keep one from being sent.
        """
        now = self._now() if self._due else 0.0
        while self._due and self._due[0][0] <= now:
            due, key = heappop(self._due)
            entry = self._sent_back.get(key)
            if entry is not None and entry.is_delayed and entry.due == due:
                entry.is_delayed = False
                self._delayed -= 1
        return self._delayed

    def _drop(self, key: tuple[int, int]) -> SentBack | None:
        entry = self._sent_back.pop(key, None)
        if entry is not None and entry.is_delayed:
            self._delayed -= 1
        return entry

    def on_sent_back(self, message: Message, outcome: Retry) -> None:
        """It was NAKed: it will come again, and that will be no surprise."""
        record = None
        if outcome.uses_attempt and message.revision:
            record = AttemptRecord(
                message.attempts, message.revision, message.is_first_assumed, was_begun=True
            )
        elif not outcome.uses_attempt:
            self._attempt_counter.give_back(message, was_begun=True)
        self._settled.pop((message.sequence, message.stored_ns), None)
        options, now, key = (
            self._subscription.options,
            self._now(),
            (message.sequence, message.stored_ns),
        )
        delay = (
            outcome.delay
            if outcome.delay is not None
            else delay_after(message.attempts, options.backoff)
        )
        self._drop(key)
        self._sent_back[key] = SentBack(record, now + 2 * options.ack_wait, now + delay)
        self._delayed += 1
        heappush(self._due, (now + delay, key))
        if len(self._sent_back) > max(MAX_SENT_BACK, 2 * options.max_delayed):
            # its redelivery will be unexplained: slower, and counted all the same
            self._drop(next(iter(self._sent_back)))

    def on_settled(self, message: Message, ack: bytes | None, *, is_exhausted: bool) -> None:
        """The last ack of a redelivery was sent. Where its attempts are exhausted its entry stays:
        another process may have another one.
        """
        if not is_exhausted:
            self._attempt_counter.forget(message)
        if ack is not None:
            until = self._now() + 2 * self._subscription.options.ack_wait
            self._settled[(message.sequence, message.stored_ns)] = Ended(
                ack, message.deliveries, self._connection.reconnect_count, until
            )
            if len(self._settled) > MAX_SETTLED:
                self._settled.popitem(last=False)

    def give_back(self, message: Message) -> None:
        """It is handed back before its handler has come to anything: another process may get it
        next, and this attempt is its.
        """
        if message.revision or message.deliveries == 1:
            self._attempt_counter.give_back(message, was_begun=message.deliveries > 1)

    def tick(self) -> None:
        """Called by the subscription's timer."""
        now = self._now()
        while self._sent_back and next(iter(self._sent_back.values())).until < now:
            self._drop(next(iter(self._sent_back)))  # another instance has it
        while self._settled and next(iter(self._settled.values())).until < now:
            self._settled.popitem(last=False)

    def name_writer(self, message: Message) -> str:
        """Names what counts this delivery, however often it is tried."""
        return self._attempt_counter.name_writer(message)

    def is_attempt_left(self, record: AttemptRecord) -> bool:
        return record.is_left(self._subscription.options.max_attempts)

    def try_begin(
        self, message: Message, record: AttemptRecord, writer: str, then: TriedCallback
    ) -> None:
        """Count the attempt that is about to begin, by one write. The record has one left."""
        self._attempt_counter.try_begin(message, record, writer, partial(self._on_tried, then))

    def try_failure(self, message: Message, writer: str, then: TriedCallback) -> None:
        """Count a first delivery that has failed, by one write."""
        self._attempt_counter.try_failure(message, writer, partial(self._on_tried, then))

    def _on_tried(self, then: TriedCallback, tried: Tried) -> None:
        if isinstance(tried, RouterError):
            self._begin_outage(tried)
            then(None)
        else:
            then(tried)

    async def count_begin(
        self, message: Message, attempt_record: AttemptRecord | None, writer: str = ""
    ) -> tuple[Message, bool]:
        """Count the attempt that is about to begin: the message with its number, and whether it may
        begin. `writer`: of an earlier try.
        """
        most = self._subscription.options.max_attempts
        writer = writer or self.name_writer(message)
        return await self._insist(
            lambda: self._attempt_counter.count_begin(message, attempt_record, most, writer)
        )

    async def count_failure(self, message: Message, writer: str = "") -> Message:
        """Count a first delivery that has failed; returns the message with its number. Likewise."""
        writer = writer or self.name_writer(message)
        return await self._insist(lambda: self._attempt_counter.count_failure(message, writer))

    async def _insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until the attempts bucket takes it. While it does not, one message tries again at
        intervals, and the others wait for it.
        """
        if not self.is_unavailable:
            try:
                return await attempt()
            except RouterError as exc:
                self._begin_outage(exc)
        async with self._one_retries:
            while True:
                if self.is_unavailable:
                    await asyncio.sleep(self._subscription.options.store_retry)
                try:
                    result = await attempt()
                except RouterError as exc:
                    self._begin_outage(exc)
                else:
                    self._outages.end(ATTEMPTS_UNAVAILABLE)
                    return result

    @property
    def is_unavailable(self) -> bool:
        """Whether attempts cannot be counted now."""
        return self._outages.has_begun(ATTEMPTS_UNAVAILABLE)

    def _begin_outage(self, exc: RouterError) -> None:
        kind = StorageRefused if _is_refused(exc) else BrokerUnavailable
        self._outages.begin(
            ATTEMPTS_UNAVAILABLE, kind(f"an attempt cannot be recorded: {exc}"), is_rare=True
        )


def _is_refused(exc: RouterError) -> bool:
    """Whether the bucket is missing or sealed. A record that is read is refused by a number, one
    that is written by a class.
    """
    is_numbered = isinstance(exc, BrokerRefused) and find_fault(exc.err_code) is PublishFault.STREAM
    return is_numbered or isinstance(exc, StorageRefused)


# -- Gives messages back to the server, which delivers them to another process, or here again: one
# by one, or all in some states.


# seconds, the server's floor: a NAK that spends nothing and hands the message to the next puller
IMMEDIATE_NAK_S = 0.01

# What a drain hands back first: no handler works on it, and its attempt is not used up.
NOT_BEGUN = (
    MessageState.QUEUED,
    MessageState.UNEXPLAINED,
    MessageState.WAITING_FOR_SLOT,
    MessageState.UNAVAILABLE,
)
# What a drain hands back along with it: nothing but time would help it.
STUCK = (MessageState.UNSTORED, MessageState.WAITING_FOR_ROOM)


class HandBack:
    """The NAKs of one subscription that no outcome asks for."""

    def __init__(
        self, connection: Connection, in_flight: InFlight, redeliveries: RedeliveryTracker
    ) -> None:
        self._connection = connection
        self._in_flight = in_flight
        self._redeliveries = redeliveries

    def refuse(self, message: Message) -> None:
        """NAK a delivery that comes during a drain: it never enters the table."""
        self._redeliveries.give_back(message)
        self._connection.publish_nowait(message.ack_subject, nak(IMMEDIATE_NAK_S))

    def send_all(self, *states: MessageState) -> None:
        """NAK every message in one of these states, and cancel what works on it."""
        for held in self._in_flight.list_in(*states):
            if held.state in NOT_BEGUN:
                self._redeliveries.give_back(held.message)
            self.send(held.message)
            if held.call is not None:
                held.call.cancel()

    def send(self, message: Message, delay_s: float = IMMEDIATE_NAK_S) -> None:
        """NAK it, unless another process may have it by now."""
        if self._in_flight.is_overdue(message):
            self._in_flight.pop(message)
        elif message in self._in_flight:
            self._connection.publish_nowait(self._in_flight.pop(message), nak(delay_s))
