"""Call one extension: attempts with pauses, inside the deadline; its breaker is asked before, its
health is updated after.

    acquire a permit  ── call ──> a valid answer
          │                └────> timeout, no responders, connection, 5xx ── 100, 200, 400 ms ──> again, while the deadline allows
          └── open: unavailable   4xx, an invalid answer ──> an error at once

4xx is what the service says of this request, so neither the breaker nor health count it against an
extension; of a provider the table of classes says whose fault it was, and what is the provider's
the breaker of the tenant counts. None counts an unavailable broker. A call may have less time than
the entry's own `timeout_ms`: the policy says so, or its deadline is near. A timeout of such a call,
or the service's 504 for it, is the caller's fault: the breaker, health and the latencies do not
count it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from msgspec import Struct

from router.core.breakers import BreakerRegistry, CallPermit
from router.core.breakers.registry import TenantBreaker
from router.core.clock import Clock, steady
from router.core.errors import BrokerUnavailable, CallTimeout, NoResponders, Poison
from router.extensions.model.entry import PROVIDER
from router.extensions.model.failure import (
    DEADLINE_EXCEEDED_FAILURE,
    EXTENSION_ERROR,
    EXTENSION_TIMED_OUT,
    EXTENSION_UNAVAILABLE,
    CountedAs,
    ExtensionFailure,
    ServiceDeadlineExceeded,
    find_fault,
    make_refused,
    make_unavailable,
    short_timeout_failure,
)
from router.extensions.model.health import HealthTracker
from router.extensions.model.ports import (
    NULL_METER,
    ExtensionCaller,
    ExtensionMeter,
    ExtensionReply,
)
from router.extensions.model.registry import Route

RETRY_PAUSE_S = 0.1  # before the second attempt; doubled for each further one
# a permit outlasts its call's timeout, or the breaker would never count a timeout
PERMIT_GRACE_S = 1.0
DEADLINE_STATUS = 504  # the status by which a service says that the call's deadline is over
LONGEST_ERROR = 200  # characters of an extension's own words that reach the requester

T = TypeVar("T")
Read = Callable[[bytes], T]
Before = Callable[[float], Awaitable[None]]  # of a call; how long it may take
Attempt = Callable[["ExtensionCall", Read[T]], Awaitable[T]]
Sleep = Callable[[float], Awaitable[None]]


class ExtensionCall(Struct, frozen=True, gc=False):
    """One call of one extension. Times in seconds; `deadline` is on the invoker's clock, `retry`
    counts attempts after the first.
    """

    route: Route
    data: bytes
    head: bytes  # `Invoker.head`
    timeout_s: float
    retry: int
    deadline: float
    tenant_id: str  # whose request it is


class Invoker:
    """Calls extensions. Where `breakers` and `health` are None nothing is counted: for a dry run."""

    def __init__(
        self,
        caller: ExtensionCaller,
        breakers: BreakerRegistry | None,
        health: HealthTracker | None,
        meter: ExtensionMeter,
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
        """An invoker that makes the same calls and updates no breaker, health or metric."""
        return Invoker(self._caller, None, None, NULL_METER, now=self._now, sleep=self._sleep)

    def head(self, headers: Mapping[str, str]) -> bytes:
        """The encoded headers of calls, made once for all calls that share them."""
        return self._caller.head(headers)

    def invoke(
        self, call: ExtensionCall, read: Read[T], attempt: Attempt[T] | None = None
    ) -> Awaitable[T]:
        """The answer as `read` returns it. Raises ExtensionFailure; BrokerUnavailable when the
        broker failed.

        `attempt`: what makes each attempt, around `Invoker.attempt`.
        """
        attempt = attempt or self.attempt
        return self._retry(call, read, attempt) if call.retry else attempt(call, read)

    async def _retry(self, call: ExtensionCall, read: Read[T], attempt: Attempt[T]) -> T:
        pause_s, left = RETRY_PAUSE_S, call.retry
        while True:
            try:
                return await attempt(call, read)
            except (ExtensionFailure, BrokerUnavailable) as exc:
                if not left or not _is_passing(exc) or self._now() + pause_s >= call.deadline:
                    raise
            await self._sleep(pause_s)
            pause_s, left = pause_s * 2, left - 1

    async def attempt(self, call: ExtensionCall, read: Read[T], before: Before | None = None) -> T:
        """One attempt. A single coroutine around the call: the steps before and after it do not
        wait, but `before`, which may refuse.
        """
        route, began = call.route, self._now()
        timeout_s = min(call.timeout_s, call.deadline - began)
        breaker, permit = self._acquire(call, timeout_s)
        try:
            if before is not None:
                await before(timeout_s)
                began = self._now()
                timeout_s = min(call.timeout_s, call.deadline - began)
            answer = _read(
                await self._caller.call(route.subject, call.data, call.head, timeout_s),
                read,
                route.kind,
            )
        except Exception as exc:  # every failure is counted by the breaker, and goes to the caller
            failure = _failure_of(exc, call, timeout_s)
            self._report_failure(route, breaker, permit, failure, self._now() - began)
            if failure is None or failure is exc:
                raise
            raise failure from exc
        except BaseException:  # cancelled: counted neither as success nor as failure
            breaker.release(permit)
            raise
        seconds = self._now() - began
        breaker.record_success(permit, seconds * 1000)
        self._meter.on_call(route.extension_id, route.kind, "ok", seconds)
        if self._health is not None:
            self._health.observe(route.extension_id, ok=True, latency_ms=seconds * 1000)
        return answer

    def _acquire(self, call: ExtensionCall, timeout_s: float) -> tuple[AnyBreaker, CallPermit]:
        """The right to call. Raises ExtensionFailure."""
        route = call.route
        if timeout_s <= 0:
            raise ExtensionFailure(
                DEADLINE_EXCEEDED_FAILURE,
                "the time of the whole pipeline is over",
                "late",
                counted_as=CountedAs.NOTHING,
                was_sent=False,
            )
        breaker = (
            self._breakers.get(route.extension_id, call.tenant_id)
            if self._breakers is not None
            else NULL_BREAKER
        )
        permit = breaker.acquire(timeout_s + PERMIT_GRACE_S)
        if permit is None:
            self._meter.on_call(route.extension_id, route.kind, "open", 0.0)
            raise ExtensionFailure(
                EXTENSION_UNAVAILABLE, "its circuit breaker is open", "open", was_sent=False
            )
        return breaker, permit

    def _report_failure(
        self,
        route: Route,
        breaker: AnyBreaker,
        permit: CallPermit,
        failure: ExtensionFailure | None,
        seconds: float,
    ) -> None:
        """Report a failed attempt. None: the broker is unavailable or this router has a defect, so
        nothing is counted.
        """
        if failure is None:
            breaker.release(permit)
            return
        if failure.is_callees:
            breaker.record_failure(permit, is_tenants=failure.is_tenants)
        else:
            breaker.release(permit)
        self._meter.on_call(route.extension_id, route.kind, failure.status, seconds)
        if self._health is not None and (failure.is_callees or failure.is_answer):
            self._health.observe(
                route.extension_id, ok=failure.is_answer, latency_ms=seconds * 1000
            )


class NullBreaker:
    """The breaker of a dry run: it permits every call and counts none."""

    _LEASE = CallPermit(0)

    def acquire(self, permit_s: float) -> CallPermit | None:
        return self._LEASE

    def record_success(self, permit: CallPermit, latency_ms: float) -> None: ...

    def record_failure(self, permit: CallPermit, *, is_tenants: bool) -> None: ...

    def release(self, permit: CallPermit) -> None: ...


NULL_BREAKER = NullBreaker()
AnyBreaker = TenantBreaker | NullBreaker


def _read(answered: ExtensionReply, read: Read[T], kind: str) -> T:
    if answered.error_code is not None:
        raise _failure_from_error(answered, answered.error_code, kind)
    try:
        return read(answered.data)
    except Poison as exc:
        raise ExtensionFailure(
            EXTENSION_ERROR, f"it answered what is no answer: {exc}", "error"
        ) from exc


def _failure_of(exc: Exception, call: ExtensionCall, timeout_s: float) -> ExtensionFailure | None:
    """The failure that an exception means; None: it says nothing about the extension."""
    match exc:
        case CallTimeout() | ServiceDeadlineExceeded() if timeout_s < call.route.timeout_ms / 1000:
            return short_timeout_failure(timeout_s)
        case ExtensionFailure():
            return exc
        case CallTimeout():
            return ExtensionFailure(
                EXTENSION_TIMED_OUT,
                f"no answer within {timeout_s * 1000:.0f} ms",
                "timeout",
                is_passing=True,
            )
        case NoResponders():
            return make_unavailable()
        case Poison():
            return ExtensionFailure(
                EXTENSION_ERROR, str(exc), "refused", counted_as=CountedAs.NOTHING, was_sent=False
            )
        case _:
            return None


def _failure_from_error(answered: ExtensionReply, code: int, kind: str) -> ExtensionFailure:
    """4xx: the same request would be refused again. Any other code is the service's own failure."""
    message = f"it answered {code}: {(answered.error or '')[:LONGEST_ERROR]}"
    if 400 <= code < 500:
        return make_refused(
            message,
            find_fault(code, answered.fault),
            answered.retry_after_ms,
            is_providers=kind == PROVIDER,
        )
    return (ServiceDeadlineExceeded if code == DEADLINE_STATUS else ExtensionFailure)(
        EXTENSION_ERROR, message, "error", is_passing=True
    )


def _is_passing(exc: ExtensionFailure | BrokerUnavailable) -> bool:
    return exc.is_passing if isinstance(exc, ExtensionFailure) else True
