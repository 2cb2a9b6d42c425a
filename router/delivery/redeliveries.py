"""Messages that fail or come again: each attempt is counted in the record that all processes share (`attempts`).

    settled a moment ago      --> it crossed its last ack on the wire: that ack is sent again, nothing is begun
    we sent it away ourselves --> its attempt is counted, from the entry as we wrote it; then it is begun, and stands in no queue
    it is unexplained         --> a suspect: its entry is read, its attempt counted, and it is begun, one at a time
    a first delivery failed   --> its attempt is counted before its outcome is judged

No process trusts its own count: if another one has written since, its entry holds. A background task waits for the
counting, so a first delivery that succeeds never does. The subscription pauses while attempts cannot be counted.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from msgspec import Struct

from router.core.deferred import Deferred
from router.core.errors import RouterError
from router.core.message import Message
from router.core.outcome import Fault, Outcome, Retry
from router.delivery.attempts import AttemptCounter, AttemptRecord
from router.delivery.background_tasks import BackgroundTasks
from router.delivery.connection import Connection
from router.delivery.in_flight import InFlight
from router.delivery.pause_switch import PauseSwitch
from router.delivery.pooled_call import PooledCall
from router.delivery.subscription import Subscription

ATTEMPTS_EXHAUSTED = Fault(
    "internal", "begun as often as allowed, and no attempt settled it: its process died, or its dead letter found no room"
)
ATTEMPTS_UNAVAILABLE = "attempts"
MAX_SETTLED = 10_000  # of the messages that came more than once, so many are known after their end

T = TypeVar("T")


class Ended(Struct, frozen=True):
    """What was said last of a message, of which delivery, in which life of the connection. `until`: steady seconds."""

    ack: bytes
    deliveries: int
    reconnect_count: int
    until: float


class RedeliveryTracker:
    """Of one subscription. `begin` and `conclude` are the processor's: what is done with a message once its attempt is recorded."""

    def __init__(
        self,
        subscription: Subscription,
        *,
        connection: Connection,
        in_flight: InFlight,
        attempt_counter: AttemptCounter,
        pause_switch: PauseSwitch,
        background_tasks: BackgroundTasks,
        begin: Callable[[Message], None],
        conclude: Callable[[Message, Outcome], None],
        send_back: Callable[[Message], None],
    ) -> None:
        self._subscription = subscription
        self._connection = connection
        self._in_flight = in_flight
        self._attempt_counter = attempt_counter
        self._pause_switch = pause_switch
        self._background_tasks = background_tasks
        self._begin = begin
        self._conclude = conclude
        self._send_back = send_back
        self._suspects: deque[Message] = deque()  # unexplained redeliveries; begun one at a time
        self._examiner: asyncio.Task[None] | None = None
        self._sent_away: OrderedDict[tuple[int, int], tuple[AttemptRecord | None, float]] = (
            OrderedDict()
        )  # NAKed by us: its entry, when to forget it
        self._settled: OrderedDict[tuple[int, int], Ended] = OrderedDict()  # oldest first; its marks are gone, so nothing else tells
        self._is_ending = False
        self._now = asyncio.get_running_loop().time

    def on_redelivery(self, message: Message) -> bool:
        """Handle a redelivery that is in flight now. Returns False when it is unexplained."""
        if (known := self._sent_away.pop((message.sequence, message.stored_ns), None)) is not None:
            self._start_task(message, self._begin_again(message, known[0]))
            return True
        self._subscription.observer.on_unexpected_redelivery(message)
        self._suspects.append(message)
        if self._examiner is None:
            self._examiner = self._background_tasks.start(self._examine())
        return False

    def find_last_ack(self, message: Message) -> bytes | None:
        """The last ack of a message that is settled, if this delivery left the server before it heard it.

        A durable that was made anew counts deliveries from one: what it delivers is meant. So is what a server delivers that
        was away: it may have lost the effects along with the ack, and they are to be stored again.
        """
        ended = self._settled.get((message.sequence, message.stored_ns))
        if ended is None or message.deliveries <= ended.deliveries or ended.reconnect_count != self._connection.reconnect_count:
            return None
        self._subscription.observer.on_unexpected_redelivery(message)
        return ended.ack

    @property
    def delayed(self) -> int:
        """How many we sent away, and expect again."""
        return len(self._sent_away)

    def on_sent_back(self, message: Message, outcome: Retry) -> None:
        """It was NAKed: it will come again, and that will be no surprise."""
        record = None
        if outcome.uses_attempt and message.revision:
            record = AttemptRecord(message.attempts, message.revision, message.is_first_assumed, was_begun=True)
        elif not outcome.uses_attempt:
            self._attempt_counter.give_back(message, was_begun=True)
        self._settled.pop((message.sequence, message.stored_ns), None)
        self._sent_away[(message.sequence, message.stored_ns)] = (record, self._now() + 2 * self._subscription.options.ack_wait)

    def on_settled(self, message: Message, ack: bytes | None, *, is_exhausted: bool) -> None:
        """Its last ack was sent. Where its attempts are exhausted its entry stays: another process may have a redelivery of it."""
        if message.deliveries == 1:
            return
        if not is_exhausted:
            self._attempt_counter.forget(message)
        if ack is not None:
            until = self._now() + 2 * self._subscription.options.ack_wait
            self._settled[(message.sequence, message.stored_ns)] = Ended(ack, message.deliveries, self._connection.reconnect_count, until)
            if len(self._settled) > MAX_SETTLED:
                self._settled.popitem(last=False)

    def give_back(self, message: Message) -> None:
        """It is handed back before its handler has come to anything: another process may get it next, and this attempt is its."""
        if message.revision or message.deliveries == 1:
            self._attempt_counter.give_back(message, was_begun=message.deliveries > 1)

    def count_failure(self, message: Message, outcome: Retry) -> None:
        """A first delivery has failed: its outcome is judged when its attempt is counted."""
        self._start_task(message, self._count_and_conclude(message, outcome))

    def tick(self) -> None:
        """Called by the subscription's timer."""
        now = self._now()
        while self._sent_away and next(iter(self._sent_away.values()))[1] < now:
            self._sent_away.popitem(last=False)  # another instance has it
        while self._settled and next(iter(self._settled.values())).until < now:
            self._settled.popitem(last=False)

    def stop(self) -> list[Message]:
        """From now on none is begun; returns those that never were."""
        self._is_ending = True
        suspects = list(self._suspects)
        self._suspects.clear()
        return suspects

    # -- background tasks -----------------------------------------------------------------------------------------

    def _start_task(self, message: Message, work: Coroutine[Any, Any, None]) -> None:
        task = self._background_tasks.start(work)
        task.add_done_callback(lambda ended: self._send_back(message) if ended.cancelled() else None)  # even if it never ran

    async def _examine(self) -> None:
        """One suspect at a time, so that one that kills the process takes no neighbours along."""
        while self._suspects:
            await self._examine_one(self._suspects.popleft())
        self._examiner = None

    async def _examine_one(self, message: Message) -> None:
        try:
            await self._pause_switch.wait()
            counted, may_begin = await self._insist(lambda: self._count_begin(message, None))
        except asyncio.CancelledError:
            self._send_back(message)
            raise
        self._begin_counted(counted, may_begin)
        if (held := self._in_flight.find(message)) is not None and held.task is not None:
            await _wait_until_over(held.task)

    async def _begin_again(self, message: Message, known: AttemptRecord | None) -> None:
        """A redelivery that this process asked for by a NAK: it killed no process, so it does not queue."""
        await self._pause_switch.wait()
        if self._is_ending:
            self._send_back(message)
            return
        self._begin_counted(*await self._insist(lambda: self._count_begin(message, known)))

    async def _count_begin(self, message: Message, known: AttemptRecord | None) -> tuple[Message, bool]:
        return await self._attempt_counter.count_begin(message, known, self._subscription.options.max_attempts)

    def _begin_counted(self, message: Message, may_begin: bool) -> None:
        if may_begin:
            self._begin(message)
        else:
            self._conclude(message, Retry(ATTEMPTS_EXHAUSTED))  # its last attempt is used up: the settlement has the dead letter

    async def _count_and_conclude(self, message: Message, outcome: Retry) -> None:
        self._conclude(await self._insist(lambda: self._attempt_counter.count_failure(message)), outcome)

    async def _insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until the attempts bucket takes it; the subscription is paused meanwhile."""
        while True:
            try:
                result = await attempt()
            except RouterError as exc:
                self._pause_switch.close(ATTEMPTS_UNAVAILABLE, f"an attempt cannot be recorded: {exc}")
                await asyncio.sleep(self._subscription.options.store_retry)
            else:
                self._pause_switch.open(ATTEMPTS_UNAVAILABLE)
                return result


async def _wait_until_over(work: PooledCall | Deferred[Any]) -> None:
    """A handler has ended, whatever came of it."""
    if isinstance(work, PooledCall):
        await work.wait_until_over()
        return
    future = asyncio.get_running_loop().create_future()
    work.add_callback(lambda _: None if future.done() else future.set_result(None))
    await future
