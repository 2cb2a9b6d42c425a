"""Messages that come again: their start is written down before they are begun (CONTRACTS §1, "Deliveries are not attempts").

    settled a moment ago      --> it was on its way when its last stamp was said: the stamp is said again, nothing is begun
    we sent it away ourselves --> its start is known: written down, begun; it stands in no queue
    nobody here knows why     --> a suspect: its marks are read, one more is written, and it is begun, one at a time

What writing it down costs is waited for in a chore, never on the way of a first delivery. Starts that cannot be written
down close the lane's gate until they can.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from router.delivery.chores import Chores
from router.delivery.connection import Connection
from router.delivery.gate import Gate
from router.delivery.hands import Hands
from router.delivery.lane import Lane
from router.delivery.starts import Starts
from router.delivery.turn import Turn
from router.errors import RouterError
from router.later import Later
from router.message import Message
from router.outcome import Fault, Outcome, Retry

KILLED = Fault("internal", "started as often as allowed, and never settled: the process died on it")
STARTS = "starts"
MOST_SETTLED = 10_000  # of the messages that came more than once, so many are known after their end

T = TypeVar("T")


class Ended(Struct, frozen=True):
    """What was said last of a message, of which delivery, in which life of the connection. `until`: steady seconds."""

    stamp: bytes
    deliveries: int
    lives: int
    until: float


class Redeliveries:
    """Of one lane. `begin` and `conclude` are the desk's: what becomes of a message once its start stands."""

    def __init__(
        self,
        lane: Lane,
        *,
        connection: Connection,
        hands: Hands,
        starts: Starts,
        gate: Gate,
        chores: Chores,
        begin: Callable[[Message], None],
        conclude: Callable[[Message, Outcome], None],
        send_back: Callable[[Message], None],
    ) -> None:
        self._lane = lane
        self._connection = connection
        self._hands = hands
        self._starts = starts
        self._gate = gate
        self._chores = chores
        self._begin = begin
        self._conclude = conclude
        self._send_back = send_back
        self._suspects: deque[Message] = deque()  # redelivered, nobody here knows why; begun one at a time
        self._examiner: asyncio.Task[None] | None = None
        self._sent_away: OrderedDict[tuple[int, int], tuple[int, float]] = OrderedDict()  # NAKed by us: starts spent, when to forget it
        self._settled: OrderedDict[tuple[int, int], Ended] = OrderedDict()  # oldest first; its marks are gone, so nothing else tells
        # A redelivery may never have been begun, and its mark is the only way to know: so even one attempt means two starts.
        self._most_starts = max(2, lane.pace.max_attempts)
        self._is_ending = False
        self._now = asyncio.get_running_loop().time

    def take(self, message: Message) -> bool:
        """One that is in hand, and came again. False: nobody here knows why."""
        if (known := self._sent_away.pop((message.sequence, message.stored_ns), None)) is not None:
            again = self._chores.start(self._begin_again(message, known[0]))
            again.add_done_callback(lambda task: self._send_back(message) if task.cancelled() else None)  # even if it never ran
            return True
        self._lane.observer.timed_out(message)
        self._suspects.append(message)
        if self._examiner is None:
            self._examiner = self._chores.start(self._examine())
        return False

    def said_last(self, message: Message) -> bytes | None:
        """The last stamp of a message that is settled, if this delivery left the server before it heard it.

        A durable that was made anew counts deliveries from one: what it delivers is meant. So is what a server delivers that
        was away: it may have lost the effects along with the stamp, and they are to be stored again.
        """
        ended = self._settled.get((message.sequence, message.stored_ns))
        if ended is None or message.deliveries <= ended.deliveries or ended.lives != self._connection.lives:
            return None
        self._lane.observer.timed_out(message)
        return ended.stamp

    @property
    def delayed(self) -> int:
        """How many we sent away, and expect again."""
        return len(self._sent_away)

    def sent_away(self, message: Message, outcome: Retry) -> None:
        """It was NAKed: it will come again, and that will be no surprise."""
        spent = message.starts
        if not outcome.spends:
            spent -= 1
            self.spend_nothing(message)
        self._settled.pop((message.sequence, message.stored_ns), None)
        self._sent_away[(message.sequence, message.stored_ns)] = (spent, self._now() + 2 * self._lane.pace.ack_wait)

    def settled(self, message: Message, stamp: bytes | None) -> None:
        """Its last stamp was said: its marks mean nothing any more."""
        if message.deliveries == 1:
            return
        self._starts.forget(self._connection, message)
        if stamp is not None:
            until = self._now() + 2 * self._lane.pace.ack_wait
            self._settled[(message.sequence, message.stored_ns)] = Ended(stamp, message.deliveries, self._connection.lives, until)
            if len(self._settled) > MOST_SETTLED:
                self._settled.popitem(last=False)

    def spend_nothing(self, message: Message) -> None:
        if message.deliveries > 1:
            self._starts.take_back(self._connection, message)  # another instance may get it next

    def tick(self) -> None:
        """Called by the lane's timer."""
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

    # -- chores --------------------------------------------------------------------------------------------------

    async def _examine(self) -> None:
        """One suspect at a time, so that one that kills the process takes no neighbours along."""
        while self._suspects:
            await self._examine_one(self._suspects.popleft())
        self._examiner = None

    async def _examine_one(self, message: Message) -> None:
        try:
            await self._gate.wait()
            starts = await self._insist(lambda: self._write_down(message))
        except asyncio.CancelledError:
            self._send_back(message)
            raise
        if starts > self._most_starts:
            self._conclude(replace(message, starts=starts - 1), Retry(KILLED))  # its last is spent: judge writes the letter
            return
        self._begin(replace(message, starts=starts))
        if (held := self._hands.find(message)) is not None and held.task is not None:
            await _over(held.task)

    async def _write_down(self, message: Message) -> int:
        """Which start this one is; one more than allowed, and nothing written, when there must be none."""
        marks = await self._starts.marks(message)
        if marks < self._most_starts - 1:
            await self._starts.mark(message, marks + 1)
        return marks + 2

    async def _begin_again(self, message: Message, starts: int) -> None:
        """A redelivery that we asked for ourselves: it killed nobody, so it stands in no queue."""
        await self._gate.wait()
        if self._is_ending:
            self._send_back(message)
            return
        await self._insist(lambda: self._starts.mark(message, starts))
        self._begin(replace(message, starts=starts + 1))

    async def _insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Until the bucket of starts takes it; the lane is paused meanwhile."""
        while True:
            try:
                result = await attempt()
            except RouterError as exc:
                self._gate.close(STARTS, f"a start cannot be written down: {exc}")
                await asyncio.sleep(self._lane.pace.store_retry)
            else:
                self._gate.open(STARTS)
                return result


async def _over(work: Turn | Later[Any]) -> None:
    """A handler has ended, whatever came of it."""
    if isinstance(work, Turn):
        await work.over()
        return
    over = asyncio.get_running_loop().create_future()
    work.tell(lambda _: None if over.done() else over.set_result(None))
    await over
