"""One extension called: attempts, spaced and inside the deadline; its breaker asked before, its health told after.

    enter the breaker ── call ──> an answer that counts
          │                └────> timeout, nobody, connection, 5xx ── 100, 200, 400 ms ──> again, while the deadline allows
          └── open: unavailable   4xx, no such answer ──> an error at once

4xx is the request's fault, so neither the breaker nor health count it against the extension; a broker that is away is nobody's.
A call may have less time than the entry's own `timeout_ms`: the policy says so, or its deadline is near. A timeout of such a call,
or a 504 by which the service tells of it, is the caller's: the breaker, health and the latencies do not count it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from msgspec import Struct

from router.breakers import BreakerRegistry, CallPermit, CircuitBreaker
from router.clock import Clock, steady
from router.errors import BrokerUnavailable, CallTimeout, NoResponders, Poison
from router.extensions.failure import BROKEN, LATE, TIMED_OUT, UNAVAILABLE, ExtensionFailure, ServiceDeadlineExceeded, short_timeout_failure
from router.extensions.health import HealthTracker
from router.extensions.ports import NULL_METER, ExtensionCaller, ExtensionMeter, ExtensionReply
from router.extensions.registry import Route

PAUSE_S = 0.1  # before the second attempt; doubled for each further one
GRACE_S = 1.0  # a permit outlasts its call's timeout, or no timeout would ever be told to the breaker
OVERDUE = 504  # the status by which a service says that the call's deadline is over
LONGEST_ERROR = 200  # characters of an extension's own words that reach the requester

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class ExtensionCall(Struct, frozen=True, gc=False):
    """What is asked of whom. Seconds; `deadline` is on the invoker's clock, `retry` the further attempts after the first."""

    route: Route
    data: bytes
    head: bytes  # `Invoker.head`
    timeout_s: float
    retry: int
    deadline: float


class Invoker:
    """Calls extensions. Without a book and health it leaves no trace: a dry run's."""

    def __init__(
        self,
        caller: ExtensionCaller,
        breakers: BreakerRegistry | None = None,
        health: HealthTracker | None = None,
        meter: ExtensionMeter = NULL_METER,
        *,
        now: Clock = steady,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._caller = caller
        self._breakers = breakers
        self._health = health
        self._meter = meter
        self._now = now
        self._sleep = sleep

    def make_dry_invoker(self) -> Invoker:
        """The same calls; no breaker, health or metric hears of them."""
        return Invoker(self._caller, now=self._now, sleep=self._sleep)

    def head(self, headers: Mapping[str, str]) -> bytes:
        """The headers of calls, made once for all that bear them."""
        return self._caller.head(headers)

    def invoke(self, call: ExtensionCall, read: Callable[[bytes], T]) -> Awaitable[T]:
        """What `read` makes of the answer. Raises ExtensionFailure; BrokerUnavailable when the broker is to blame."""
        return self._retry(call, read) if call.retry else self._attempt(call, read)

    async def _retry(self, call: ExtensionCall, read: Callable[[bytes], T]) -> T:
        pause_s = PAUSE_S
        for _ in range(call.retry):
            try:
                return await self._attempt(call, read)
            except (ExtensionFailure, BrokerUnavailable) as exc:
                if not _is_passing(exc) or self._now() + pause_s >= call.deadline:
                    raise
            await self._sleep(pause_s)
            pause_s *= 2
        return await self._attempt(call, read)

    async def _attempt(self, call: ExtensionCall, read: Callable[[bytes], T]) -> T:
        """Once. One coroutine around the call itself: what is done before and after it waits for nothing."""
        route, began = call.route, self._now()
        timeout_s = min(call.timeout_s, call.deadline - began)
        breaker, permit = self._acquire(route, timeout_s)
        try:
            answer = _read(await self._caller.call(route.subject, call.data, call.head, timeout_s), read)
        except Exception as exc:
            failure = _failure_of(exc, call, timeout_s)
            self._report_failure(route, breaker, permit, failure, self._now() - began)
            if failure is None or failure is exc:
                raise
            raise failure from exc
        except BaseException:  # cancelled: nobody's fault
            breaker.release(permit)
            raise
        seconds = self._now() - began
        breaker.record_success(permit, seconds * 1000)
        self._meter.on_call(route.extension_id, route.kind, "ok", seconds)
        if self._health is not None:
            self._health.observe(route.extension_id, ok=True, latency_ms=seconds * 1000)
        return answer

    def _acquire(self, route: Route, timeout_s: float) -> tuple[AnyBreaker, CallPermit]:
        """The right to call. Raises ExtensionFailure."""
        if timeout_s <= 0:
            raise ExtensionFailure(LATE, "the time of the whole pipeline is over", "late", is_callees=False)
        breaker = self._breakers.get(route.extension_id) if self._breakers is not None else NULL_BREAKER
        permit = breaker.acquire(timeout_s + GRACE_S)
        if permit is None:
            self._meter.on_call(route.extension_id, route.kind, "open", 0.0)
            raise ExtensionFailure(UNAVAILABLE, "its circuit breaker is open", "open")
        return breaker, permit

    def _report_failure(
        self, route: Route, breaker: AnyBreaker, permit: CallPermit, failure: ExtensionFailure | None, seconds: float
    ) -> None:
        """None: the broker is away, or something of ours broke; the extension is not to blame, and nobody hears of it."""
        if failure is None:
            breaker.release(permit)
            return
        (breaker.record_failure if failure.is_callees else breaker.release)(permit)
        self._meter.on_call(route.extension_id, route.kind, failure.status, seconds)
        if self._health is not None and (failure.is_callees or failure.is_answer):
            self._health.observe(route.extension_id, ok=failure.is_answer, latency_ms=seconds * 1000)


class NullBreaker:
    """The breaker of a call that leaves no trace: open always, and deaf."""

    _LEASE = CallPermit(0)

    def acquire(self, permit_s: float) -> CallPermit | None:
        return self._LEASE

    def record_success(self, permit: CallPermit, latency_ms: float) -> None: ...

    def record_failure(self, permit: CallPermit) -> None: ...

    def release(self, permit: CallPermit) -> None: ...


NULL_BREAKER = NullBreaker()
AnyBreaker = CircuitBreaker | NullBreaker


def _read(answered: ExtensionReply, read: Callable[[bytes], T]) -> T:
    if answered.error_code is not None:
        raise _failure_from_error(answered, answered.error_code)
    try:
        return read(answered.data)
    except Poison as exc:
        raise ExtensionFailure(BROKEN, f"it answered what is no answer: {exc}", "error") from exc


def _failure_of(exc: Exception, call: ExtensionCall, timeout_s: float) -> ExtensionFailure | None:
    """Why there is no answer that counts; None where that says nothing about the extension."""
    match exc:
        case CallTimeout() | ServiceDeadlineExceeded() if timeout_s < call.route.timeout_ms / 1000:
            return short_timeout_failure(timeout_s)
        case ExtensionFailure():
            return exc
        case CallTimeout():
            return ExtensionFailure(TIMED_OUT, f"no answer within {timeout_s * 1000:.0f} ms", "timeout", is_passing=True)
        case NoResponders():
            return ExtensionFailure(UNAVAILABLE, "nobody serves it", "unavailable", is_passing=True)
        case Poison():
            return ExtensionFailure(BROKEN, str(exc), "refused", is_callees=False)
        case _:
            return None


def _failure_from_error(answered: ExtensionReply, code: int) -> ExtensionFailure:
    """4xx: the request is at fault, and would be again. Whatever is no 4xx is the service's own trouble."""
    message = f"it answered {code}: {(answered.error or '')[:LONGEST_ERROR]}"
    if 400 <= code < 500:
        return ExtensionFailure(BROKEN, message, "refused", is_callees=False, is_answer=True)
    return (ServiceDeadlineExceeded if code == OVERDUE else ExtensionFailure)(BROKEN, message, "error", is_passing=True)


def _is_passing(exc: ExtensionFailure | BrokerUnavailable) -> bool:
    return exc.is_passing if isinstance(exc, ExtensionFailure) else True
