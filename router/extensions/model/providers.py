"""Invoke providers through the router: find one in the registry, call it, and report the outcome.
No broker here.

    request ── ExtensionRegistry (kind provider) ──> route ──> one call, or a stream ──> ProviderResponse, or chunks up to a last one
                └─ none: extension_not_found

The tenant, `metadata.policy_id` and the router's own environment choose among versions; the
request's id draws the instance. A provider has its entry's `timeout_ms` for an answer, and for each
piece of a stream; never more than the caller still waits. Breaker, health and retries are those of
every extension; a stream is never requested twice, since its pieces are sent already. Each attempt
is told to an `InvocationLedger` before its call and at its end: what reached a provider is billed.
A caller with a short timeout must not open the breaker for all others: only the end of the
provider's own time is its fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from router.contracts.extension import DEADLINE, TICK, TICK_MS
from router.contracts.failure_class import RATE_LIMIT, FailureClass
from router.contracts.provider import SUCCESS, ProviderResponse
from router.contracts.provider_call import (
    STREAM_HEADER,
    ProviderAnswer,
    call_bytes,
    call_headers,
    read_answer,
)
from router.contracts.provider_request import ProviderRequest
from router.core.breakers import BreakerRegistry, CallPermit
from router.core.breakers.registry import TenantBreaker
from router.core.clock import Clock, now_ms, steady
from router.core.errors import BrokerUnavailable, RouterError
from router.extensions.model.entry import PROVIDER
from router.extensions.model.failure import (
    EXTENSION_UNAVAILABLE,
    RATE_LIMITS,
    ExtensionFailure,
    caller_deadline_failure,
    failed_response,
    failure_of,
    is_sent,
    make_limited,
    make_not_found,
    status_of,
)
from router.extensions.model.health import HealthTracker
from router.extensions.model.invocation_answers import ProviderMessage, Send, StreamRelay
from router.extensions.model.invoke import PERMIT_GRACE_S, ExtensionCall, Invoker
from router.extensions.model.ports import ExtensionMeter, InvocationLedger
from router.extensions.model.registry import ExtensionRegistry, Route

# -- The invoker: one call, or a stream.

USUAL_S = 60.0  # for an answer, where the caller names no time
USUAL_STREAM_S = 600.0
# the caller's time ends before the call's own: a cancelled call is not counted against the provider
CALLER_SLACK_S = 0.01
DEFAULT_POLICY = "default"


class ProviderLimits(Protocol):
    """`policies.model.providers`: who limits which tenant, shared with the decisions."""

    def find_left_ms(self, tenant_id: str, provider_id: str) -> int:
        """For how long the provider is left alone; 0: it may be asked."""

    def observe(
        self,
        tenant_id: str,
        provider_id: str,
        outcome: FailureClass | None,
        latency_ms: float,
        retry_after_ms: int | None,
    ) -> None:
        """One outcome; None: a success."""


class StreamOpener(Protocol):
    """The port that opens streams."""

    def __call__(
        self,
        subject: str,
        data: bytes,
        headers: Mapping[str, str],
        silence_s: float,
        on_unread: Callable[[ProviderMessage], None],
    ) -> AbstractAsyncContextManager[AsyncIterable[ProviderMessage]]:
        """The pieces of one stream, at most `silence_s` apart. `on_unread` hears those that came
        and were not read, at its end.

        Asking raises BrokerUnavailable, or Poison for what the broker would never take; reading
        CallTimeout, NoResponders, ConnectionLost.
        """


class ServiceRecords(Struct, frozen=True, kw_only=True):
    """What calls of services are counted in."""

    breakers: BreakerRegistry
    health: HealthTracker
    meter: ExtensionMeter


class ProviderInvoker:
    """Invokes registered providers. `records` are the invoker's; `environment` is what versions'
    rules may name.

    `longest_s`: no invocation takes longer, whatever time the caller claims to have.
    """

    def __init__(
        self,
        registry: ExtensionRegistry,
        invoker: Invoker,
        streams: StreamOpener,
        *,
        records: ServiceRecords,
        limits: ProviderLimits,
        environment: str | None = None,
        longest_s: float = USUAL_STREAM_S,
        now: Clock = steady,
    ) -> None:
        self._registry = registry
        self._invoker = invoker
        self._streams = streams
        self._breakers = records.breakers
        self._health = records.health
        self._limits = limits
        self._meter = records.meter
        self._environment = environment
        self._longest_s = longest_s
        self._now = now

    async def invoke(
        self, request: ProviderRequest, ledger: InvocationLedger, left_s: float | None = None
    ) -> ProviderResponse:
        """The provider's answer, or a response that says why there is none. `left_s`: seconds that
        the caller still waits.

        The attempt that was answered, or whose time is over, is still open in the ledger
        afterwards: the caller ends it.
        """
        begun, left_s = self._now(), min(USUAL_S if left_s is None else left_s, self._longest_s)
        route = self._route(request)
        if route is None:
            return failed_response(request, make_not_found(request), 0.0)
        if left_ms := self._limits.find_left_ms(request.tenant_id, request.provider_id):
            return failed_response(request, make_limited(left_ms), 0.0)
        attempts = _LedgerAttempts(self._invoker, ledger)
        try:
            async with asyncio.timeout(left_s):
                call = _call(
                    route,
                    request,
                    self._invoker.head(call_headers(request)),
                    begun + left_s + CALLER_SLACK_S,
                )
                answer = await self._invoker.invoke(
                    call, lambda data: read_answer(data, request.provider_id), attempts.attempt
                )
        except TimeoutError:
            return failed_response(request, caller_deadline_failure(left_s), self._ms_since(begun))
        except RouterError as exc:
            failure = failure_of(exc)
            self._tell_limits(request, failure, self._ms_since(begun))
            return failed_response(request, failure, self._ms_since(begun))
        self._tell_limits(request, None, self._ms_since(begun))
        ledger.take(answer.body, answer.metadata)
        return _build_response(request, answer, self._ms_since(begun))

    async def stream(
        self,
        request: ProviderRequest,
        send: Send,
        ledger: InvocationLedger,
        left_s: float | None = None,
    ) -> None:
        """Pass the provider's chunks to `send`, up to a last one that says how it ended. The app
        cancels it when no reader is left.

        Its attempt is still open in the ledger where this is cancelled.
        """
        relay = StreamRelay(request, send, ledger, self._now)
        left_s = min(USUAL_STREAM_S if left_s is None else left_s, self._longest_s)
        route = self._route(request)
        if route is None:
            relay.fail(make_not_found(request))
            return
        if left_ms := self._limits.find_left_ms(request.tenant_id, request.provider_id):
            relay.fail(make_limited(left_ms))
            return
        outcome = self._begin_stream(route, request.tenant_id, left_s)
        if outcome is None:
            relay.fail(
                ExtensionFailure(EXTENSION_UNAVAILABLE, "its circuit breaker is open", "open")
            )
            return
        try:
            failure = await self._relay(relay, route, request, left_s, outcome, ledger)
        except BaseException:
            # also a cancellation, when no reader is left: it frees the probe's place
            outcome.cancel()
            raise
        ledger.end(
            SUCCESS if failure is None else status_of(failure),
            was_sent=failure is None or failure.was_sent,
        )
        self._tell_limits(request, failure, relay.latency_ms)
        if failure is not None and relay.latency_ms >= (left_s - CALLER_SLACK_S) * 1000:
            # the provider saw the caller's deadline pass before this router did
            failure = caller_deadline_failure(left_s)
        outcome.end(failure, relay.latency_ms)

    def _tell_limits(
        self, request: ProviderRequest, failure: ExtensionFailure | None, latency_ms: float
    ) -> None:
        """A rate limit closes the provider for its tenant, as a result does that says so; a success
        opens it.
        """
        if failure is None:
            self._limits.observe(request.tenant_id, request.provider_id, None, latency_ms, None)
        elif failure.fault == RATE_LIMITS:
            self._limits.observe(
                request.tenant_id,
                request.provider_id,
                RATE_LIMIT,
                latency_ms,
                failure.retry_after_ms,
            )

    def _begin_stream(self, route: Route, tenant_id: str, left_s: float) -> StreamOutcome | None:
        """None: the breaker is open. A probe has the time of its first piece, as a plain call has
        that of its answer.
        """
        breaker = self._breakers.get(route.extension_id, tenant_id)
        permit = breaker.acquire(min(route.timeout_ms / 1000, left_s) + PERMIT_GRACE_S)
        if permit is None:
            self._meter.on_call(route.extension_id, PROVIDER, "open", 0.0)
            return None
        return StreamOutcome(breaker, permit, self._health, self._meter, self._now)

    async def _relay(  # noqa: PLR0917 - the parts of one stream
        self,
        relay: StreamRelay,
        route: Route,
        request: ProviderRequest,
        left_s: float,
        outcome: StreamOutcome,
        ledger: InvocationLedger,
    ) -> ExtensionFailure | None:
        headers = {
            **call_headers(request),
            STREAM_HEADER: "true",
            TICK: str(TICK_MS),
            DEADLINE: str(int(left_s * 1000)),
        }
        try:
            async with asyncio.timeout(left_s):
                await ledger.begin(find_model(route), left_s)
                body, silence_s = call_bytes(request, route.config), route.timeout_ms / 1000
                async with self._streams(
                    route.subject, body, headers, silence_s, relay.count_unread
                ) as pieces:
                    return await relay.run(pieces, outcome.on_first_piece)
        except TimeoutError:
            failure = caller_deadline_failure(left_s)
        except RouterError as exc:
            failure = failure_of(exc)
        relay.fail(failure)
        return failure

    def _route(self, request: ProviderRequest) -> Route | None:
        policy_id = request.metadata.get("policy_id")
        return self._registry.find(
            request.provider_id,
            kind=PROVIDER,
            tenant_id=request.tenant_id,
            policy_id=policy_id if isinstance(policy_id, str) else DEFAULT_POLICY,
            environment=self._environment,
            key=request.request_id,
        )

    def _ms_since(self, begun: float) -> float:
        return (self._now() - begun) * 1000


class _LedgerAttempts:
    """Each attempt of one plain invocation, told to its ledger."""

    def __init__(self, invoker: Invoker, ledger: InvocationLedger) -> None:
        self._invoker = invoker
        self._ledger = ledger

    async def attempt(
        self, call: ExtensionCall, read: Callable[[bytes], ProviderAnswer]
    ) -> ProviderAnswer:
        model = find_model(call.route)
        try:
            return await self._invoker.attempt(
                call, read, lambda timeout_s: self._ledger.begin(model, timeout_s)
            )
        except (ExtensionFailure, BrokerUnavailable) as exc:
            self._ledger.end(status_of(failure_of(exc)), was_sent=is_sent(exc))
            raise


def find_model(route: Route) -> str | None:
    """What the operator says of a provider that tells no model itself."""
    model = route.config.get("model")
    return model if isinstance(model, str) else None


def _build_response(
    request: ProviderRequest, answer: ProviderAnswer, latency_ms: float
) -> ProviderResponse:
    return ProviderResponse(
        request_id=request.request_id,
        status=SUCCESS,
        body=answer.body,
        metadata=answer.metadata,
        cost=answer.cost,
        latency_ms=round(latency_ms),
        timestamp_ms=now_ms(),
    )


def _call(route: Route, request: ProviderRequest, head: bytes, deadline: float) -> ExtensionCall:
    return ExtensionCall(
        route,
        call_bytes(request, route.config),
        head,
        route.timeout_ms / 1000,
        route.retry,
        deadline,
        request.tenant_id,
    )


# -- What becomes of one stream, as its provider's breaker, its health and the meter count it:
# one invocation, however long it takes.
#
#     closed       all calls share the permit; the outcome is counted at the end
# half open    the stream is a probe: its first good piece counts as a success and ends the permit;
# a later failure is counted as well
#
# If a probe lasted as long as its stream, a few long streams would keep a provider that is well
# again closed to all.


class StreamOutcome:
    """For a stream that begins now. `permit`: acquired for it."""

    def __init__(
        self,
        breaker: TenantBreaker,
        permit: CallPermit,
        health: HealthTracker,
        meter: ExtensionMeter,
        now: Clock,
    ) -> None:
        self._breaker = breaker
        self._permit: CallPermit | None = permit
        self._health = health
        self._meter = meter
        self._now = now
        self._begun = now()

    def on_first_piece(self) -> None:
        """The provider has answered in time, and well."""
        if self._permit is not None and self._permit.probe:
            self._breaker.record_success(self._permit, (self._now() - self._begun) * 1000)
            self._permit = None

    def cancel(self) -> None:
        """The stream was cancelled: counted neither as success nor as failure."""
        if self._permit is not None:
            self._breaker.release(self._permit)

    def end(self, failure: ExtensionFailure | None, latency_ms: float) -> None:
        """The stream has ended. `failure`: None where it ended well."""
        self._meter.on_call(
            self._breaker.service,
            PROVIDER,
            "ok" if failure is None else failure.status,
            latency_ms / 1000,
        )
        if failure is None or failure.is_callees or failure.is_answer:
            self._health.observe(
                self._breaker.service,
                ok=failure is None or failure.is_answer,
                latency_ms=latency_ms,
            )
        if failure is not None and failure.is_callees:
            self._record_failure(is_tenants=failure.is_tenants)
        elif failure is not None:
            self.cancel()
        elif self._permit is not None:
            self._breaker.record_success(self._permit, latency_ms)

    def _record_failure(self, *, is_tenants: bool) -> None:
        permit = self._permit or self._breaker.permit_for_outcome(self._begun)
        if permit is not None:
            self._breaker.record_failure(permit, is_tenants=is_tenants)
