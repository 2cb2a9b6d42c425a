"""How a load is sent: closed, so many in flight, or open, so many a second; and what is counted of
the answers.

    ClosedLoop   each answer sends the next request; a latency counts from when it was sent
    OpenLoop     each request has its time, whatever was answered until then; a latency counts from
                 when it was due, so a stall of any process is counted for every request that came
                 due in it (no coordinated omission)

    run     warm-up | measured                          | sends no more, hears the last answers
    counts          | requests of this time, to their end ……………………………………………………………… |

A request costs no task, future or timer: one subscription hears all answers by a plain function,
and the last token of an inbox is the number of its request. Requests are due in the order of their
numbers, so the oldest one that waits is the first to time out.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import orjson
from msgspec import Struct

from router.core.errors import BrokerUnavailable, NoRouter
from router.decide.commands.load.requests import OPENING, build_head
from router.decide.commands.load.tally import INTERRUPTED, TIMEOUT, UNREADABLE, LoadTally
from router.delivery.wire.connection import Connection

SWEEP_S = 0.05  # between two looks for requests that timed out
TELL_S = 0.5  # between two tallies
TICK_S = 0.000_25  # what came due within one is sent together
AT_ONCE = 256  # sent in one turn of the event loop, so that answers are heard between
LAST_ANSWERS_S = 1.0  # waited for after Ctrl-C
MAX_UNSENT_BYTES = 64 * 1024 * 1024  # written, and not taken by the server

_OK = b'{"ok":true'
_WITH_WARNINGS = b"]}"  # the end of an answer that has them; without, it is the end of an object


class LoopPlan(Struct, frozen=True, kw_only=True):
    """What one process sends: `in_flight` at once, or `rate` a second, of which the first is due at
    `phase` of the way from one to the next. Seconds.
    """

    subject: str
    in_flight: int = 0
    rate: float = 0.0
    phase: float = 0.0
    warm_s: float = 1.0
    for_s: float = 30.0
    timeout_s: float = 5.0


class Loop(ABC):
    """One run. `rests`: the requests without their ids, which begin with `name`."""

    def __init__(
        self, connection: Connection, plan: LoopPlan, rests: Sequence[bytes], name: str
    ) -> None:
        self._connection = connection
        self._plan = plan
        self._rests = rests
        self._stem = f"{connection.new_inbox()}."
        self._id = f"{name}-"
        self._number_at = len(self._stem)
        self._waiting: dict[int, float] = {}  # when each was due, by number
        self._unanswered: set[int] = set()  # those that timed out
        self._next = 0
        self._oldest = 0  # none before it waits
        self._first_counted: float = math.inf
        self._is_measuring = self._is_sending = False
        self._stopped = asyncio.Event()
        self._tally = LoadTally()

    async def run(self, tell: Callable[[LoadTally], None]) -> None:
        """Send, measure, and hear the last answers. `tell` gets what was counted since it was told
        last.
        """
        sid = await self._connection.subscribe_raw(f"{self._stem}*", self._hear)
        try:
            await self._connection.require_permission(f"{self._stem}*")
            begun, self._is_sending = time.perf_counter(), True
            self._start(begun)
            await self._wait_until(begun + self._plan.warm_s)
            await self._measure(tell)
            await self._hear_last()
        finally:
            self._is_sending = False
            await self._connection.unsubscribe(sid, at_once=True)
        tell(self._tally)

    def stop(self) -> None:
        """End early: nothing more is sent."""
        self._stopped.set()

    # -- its time ----------------------------------------------------------------------------------

    async def _measure(self, tell: Callable[[LoadTally], None]) -> None:
        begun, cpu = time.perf_counter(), time.process_time()
        self._begin_counting()
        until = begun + self._plan.for_s
        while not self._stopped.is_set() and begun < until:
            await self._wait_until(min(until, begun + TELL_S))
            now, used = time.perf_counter(), time.process_time()
            told, self._tally = self._tally, LoadTally()
            told.seconds, told.cpu_s = now - begun, used - cpu
            begun, cpu = now, used
            tell(told)
        self._is_measuring = False

    async def _wait_until(self, until: float) -> None:
        """Look for timeouts until then, or until it is stopped."""
        while not self._stopped.is_set() and (left := until - time.perf_counter()) > 0:
            try:
                async with asyncio.timeout(min(left, SWEEP_S)):
                    await self._stopped.wait()
            except TimeoutError:
                self._sweep()

    async def _hear_last(self) -> None:
        is_left = self._fill(time.perf_counter())
        while is_left:
            await asyncio.sleep(0)
            is_left = self._fill(time.perf_counter())
        self._is_sending = False
        patience_s = LAST_ANSWERS_S if self._stopped.is_set() else self._plan.timeout_s + SWEEP_S
        until = time.perf_counter() + patience_s
        while self._waiting and time.perf_counter() < until:
            await asyncio.sleep(SWEEP_S / 10)
            if self._stopped.is_set():
                until = min(until, time.perf_counter() + LAST_ANSWERS_S)
            self._sweep()
        for number in self._waiting:
            if number >= self._first_counted:
                self._tally.count_error(INTERRUPTED)
        self._waiting.clear()

    def _sweep(self) -> None:
        """Count the requests that have timed out."""
        now = time.perf_counter()
        expired = now - self._plan.timeout_s
        while self._oldest < self._next:
            due = self._waiting.get(self._oldest)
            if due is not None:
                if due > expired:
                    break
                del self._waiting[self._oldest]
                self._unanswered.add(self._oldest)
                self._count_unanswered(self._oldest, TIMEOUT)
            self._oldest += 1
        self._fill(now)

    # -- what the two loops do ---------------------------------------------------------------------

    @abstractmethod
    def _start(self, begun: float) -> None:
        """Send the first requests."""

    @abstractmethod
    def _begin_counting(self) -> None:
        """The warm-up is over."""

    @abstractmethod
    def _fill(self, now: float) -> bool:
        """Send what may be sent now. Returns whether some of it is left for the next turn of the
        event loop.
        """

    # -- a request ---------------------------------------------------------------------------------

    @property
    def _may_send(self) -> bool:
        return self._is_sending and not self._stopped.is_set()

    @property
    def _can_send(self) -> bool:
        """What is sent while there is no connection would wait for it, and be sent all at once."""
        connection = self._connection
        return connection.is_connected and connection.pending_data_size < MAX_UNSENT_BYTES

    def _send(self, due: float) -> None:
        number, self._next = self._next, self._next + 1
        if number >= self._first_counted:
            self._tally.sent += 1
        if not self._can_send:
            self._count_unanswered(number, BrokerUnavailable.code)
            return
        self._waiting[number] = due
        rest = self._rests[number % len(self._rests)]
        request_id, inbox = f"{self._id}{number}", f"{self._stem}{number}"
        body = OPENING + request_id.encode() + rest
        self._connection.publish_nowait(
            self._plan.subject, body, inbox, build_head(request_id, inbox)
        )

    def _hear(self, subject: bytes, _reply: bytes, data: bytes, head: bytes | None) -> None:
        """An answer, to its number. It must not raise: others may publish here, too."""
        number = read_number(subject, self._number_at)
        if number is None:
            return
        code = None
        if not data.startswith(_OK):
            code = read_code(data, head)
            if code == "":
                return
        now = time.perf_counter()
        due = self._waiting.pop(number, None)
        if due is None:
            self._count_further(number)
            return
        if code is None:
            self._tally.in_time += self._is_measuring
        if number >= self._first_counted:
            self._count(due, now, code, data)
        self._fill(now)

    def _count(self, due: float, now: float, code: str | None, data: bytes) -> None:
        tally = self._tally
        tally.latencies.add(int((now - due) * 1e6))
        if code is not None:
            tally.count_error(code)
            return
        tally.answered += 1
        if data.endswith(_WITH_WARNINGS):
            for name in read_warnings(data):
                tally.count_warning(name)

    def _count_unanswered(self, number: int, code: str) -> None:
        """It took at least the timeout, and counts with that."""
        if number >= self._first_counted:
            self._tally.count_error(code)
            self._tally.latencies.add(int(self._plan.timeout_s * 1e6))

    def _count_further(self, number: int) -> None:
        """A request that does not wait was answered: too late, or once more."""
        if not self._first_counted <= number < self._next:
            return
        if number in self._unanswered:
            self._unanswered.discard(number)
            self._tally.late += 1
        else:
            self._tally.twice += 1


class ClosedLoop(Loop):
    """`in_flight` requests wait at any time."""

    def _start(self, begun: float) -> None:
        self._fill(begun)

    def _begin_counting(self) -> None:
        self._first_counted, self._is_measuring = self._next, True

    def _fill(self, now: float) -> bool:
        while len(self._waiting) < self._plan.in_flight and self._may_send and self._can_send:
            self._send(now)
        return False


class OpenLoop(Loop):
    """`rate` requests come due a second, evenly."""

    def _start(self, begun: float) -> None:
        plan = self._plan
        self._begun = begun
        self._first_counted = self._count_due(plan.warm_s)
        self._last = self._count_due(plan.warm_s + plan.for_s)
        self._tick()

    def _begin_counting(self) -> None:
        self._is_measuring = True

    def _count_due(self, seconds: float) -> int:
        """How many are due before then, from the beginning."""
        return max(0, math.ceil(seconds * self._plan.rate - self._plan.phase))

    def _find_due(self, number: int) -> float:
        return self._begun + (number + self._plan.phase) / self._plan.rate

    def _tick(self) -> None:
        now, loop = time.perf_counter(), asyncio.get_running_loop()
        if self._fill(now):
            loop.call_soon(self._tick)
        elif self._may_send and self._next < self._last:
            loop.call_later(max(self._find_due(self._next) - now, TICK_S), self._tick)

    def _fill(self, now: float) -> bool:
        for _ in range(AT_ONCE):
            due = self._find_due(self._next)
            if not self._may_send or self._next >= self._last or due > now:
                return False
            if self._next >= self._first_counted:
                self._tally.delays.add(int((now - due) * 1e6))
            self._send(due)
        return True


def make_loop(connection: Connection, plan: LoopPlan, rests: Sequence[bytes], name: str) -> Loop:
    return (OpenLoop if plan.rate else ClosedLoop)(connection, plan, rests, name)


# -- An answer.


def read_number(subject: bytes, number_at: int) -> int | None:
    """The number of the request that is answered; None: it is no request of ours."""
    token = subject[number_at:]
    return int(token) if token.isdigit() and len(token) < 20 else None


def read_code(data: bytes, head: bytes | None) -> str | None:
    """The code of an answer that says no; None: it says yes; empty: it is no answer yet, but a
    PubAck.
    """
    if not data:
        is_unheard = head is not None and head.startswith(b"NATS/1.0 503")
        return NoRouter.code if is_unheard else UNREADABLE
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        return UNREADABLE
    match answer:
        case {"ok": True}:
            return None
        case {"error": {"code": str(code)}}:
            return code
        case {"stream": str(), "seq": int()}:
            return ""
        case {"error": {"err_code": int(number)}}:
            return f"jetstream_{number}"
    return UNREADABLE


def read_warnings(data: bytes) -> list[str]:
    """The codes of an answer's warnings."""
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        return [UNREADABLE]
    match answer:
        case {"warnings": [*warnings]}:
            return [str(warning.get("code")) for warning in warnings if isinstance(warning, dict)]
    return []
