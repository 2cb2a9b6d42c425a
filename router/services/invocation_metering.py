"""Meters invocations of providers: one usage event each, stored before its answer goes out (docs/reference/extensions.md#metered).

    it ended, or was cut ── UsageEvent, its id made of tenant, request id and status ──> the usage stream ── stored ──> the answer goes out
    for an assignment whose result will be metered ──────────────────────────────────────────────────────────────────> the answer goes out

While nothing can be stored no provider is asked: what it did could not be metered.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from msgspec import Struct

from router.contracts.provider_chunk import StreamChunk
from router.contracts.provider_request import ProviderRequest
from router.contracts.result import MAX_LATENCY_MS
from router.contracts.usage import UsageEvent
from router.core.clock import Clock, now_ms, steady
from router.core.errors import BrokerUnavailable
from router.delivery.acked_publisher import AckedPublisher, NotPublished
from router.delivery.api import JetStream
from router.delivery.storing import open_publisher
from router.operations.observability import LogRateLimit, events, logs
from router.routing.reports.assignments import AssignmentLookup
from router.routing.reports.metering import make_usage_effect

log = logs.logger(__name__)

INVOKED, STREAMED = "provider.invoke", "provider.invoke.stream"  # types of their events
CANCELLED: Final = "cancelled"
PAUSE_S = 1.0  # after an event that could not be stored


class InvocationOutcome(Struct, frozen=True, kw_only=True):
    """How an invocation ended. `cost`: as the provider told it. Without `was_sent` there is nothing to meter: it reached no provider."""

    status: str  # success | error | timeout | cancelled
    cost: float = 0.0
    was_sent: bool = True


class StreamReceipt:
    """What came of a stream so far. The last chunk is kept here until it may go out."""

    __slots__ = ("cost", "has_chunks", "last")

    def __init__(self) -> None:
        self.cost = 0.0
        self.has_chunks = False
        self.last: StreamChunk | None = None

    def take(self, chunk: StreamChunk) -> None:
        if chunk.metadata:
            self.cost = _read_cost(chunk.metadata, self.cost)
        if chunk.done:
            self.last = chunk
        else:
            self.has_chunks = True

    def conclude(self, *, was_sent: bool) -> InvocationOutcome:
        """Without a last chunk it was cut."""
        told: Mapping[str, str] = self.last.metadata if self.last is not None else {"status": CANCELLED}
        return InvocationOutcome(status=told["status"], cost=self.cost, was_sent=was_sent or self.has_chunks)


class InvocationMetering:
    """`is_on`: ENABLE_USAGE_PUBLISH. A cost above `max_cost` is metered as that, as no result may say more."""

    def __init__(
        self, jetstream: JetStream, assignments: AssignmentLookup, *, is_on: bool = True, max_cost: float, now: Clock = steady
    ) -> None:
        self._jetstream = jetstream
        self._assignments = assignments
        self._is_on = is_on
        self._max_cost = max_cost
        self._now = now
        self._publisher: AckedPublisher | None = None
        self._paused_until = -math.inf
        self._storing: set[asyncio.Task[bool]] = set()
        self._lines = LogRateLimit(every_s=60.0)

    @property
    def is_paused(self) -> bool:
        return self._now() < self._paused_until

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """For the duration of the block. Raises BrokerUnavailable."""
        async with open_publisher(self._jetstream) as self._publisher:
            yield

    async def store(self, request: ProviderRequest, outcome: InvocationOutcome, latency_s: float, *, is_stream: bool = False) -> bool:
        """Whether the event is stored, or none is due. It goes on being stored when the caller is cancelled."""
        if not self._is_on or not outcome.was_sent:
            return True
        event = self._make_event(request, outcome, latency_s, STREAMED if is_stream else INVOKED)
        storing = asyncio.create_task(self._store(request, event))
        self._storing.add(storing)
        storing.add_done_callback(self._storing.discard)
        return await asyncio.shield(storing)

    def _make_event(self, request: ProviderRequest, outcome: InvocationOutcome, latency_s: float, event_type: str) -> UsageEvent:
        return UsageEvent(
            tenant_id=request.tenant_id,
            provider_id=request.provider_id,
            event_type=event_type,
            latency_ms=min(round(latency_s * 1000), MAX_LATENCY_MS),
            cost=min(outcome.cost, self._max_cost),
            status=outcome.status,
            timestamp=now_ms(),
            trace_id=request.trace_id,
            request_id=request.request_id,
        )

    async def _store(self, request: ProviderRequest, event: UsageEvent) -> bool:
        if await self._is_reported(request):
            return True
        if self._publisher is None:
            return False
        result = await self._publisher.publish_and_wait([make_usage_effect(event)])
        if not isinstance(result, NotPublished):
            return True
        self._paused_until = self._now() + PAUSE_S
        if self._lines.allow("store"):
            log.error(events.INVOCATION_NOT_METERED, tenant=event.tenant_id, provider=event.provider_id, cause=result.cause)
        return False

    async def _is_reported(self, request: ProviderRequest) -> bool:
        """Whether it is done for an assignment, under its id: the worker's result is metered, with what was reserved for it."""
        assignment_id = request.request_id
        if request.metadata.get("assignment_id") != assignment_id:
            return False
        known = self._assignments.recall(assignment_id)
        if known is None:
            try:
                known = await self._assignments.lookup(assignment_id, lambda found: found)
            except BrokerUnavailable:
                return False  # its event has the identity of the result's
        return known is not None and (known.tenant_id, known.provider_id) == (request.tenant_id, request.provider_id)


def _read_cost(metadata: Mapping[str, str], before: float) -> float:
    """What a stream has cost by now. A provider may say it in any chunk, for the whole so far."""
    try:
        cost = float(metadata["cost"])
    except (KeyError, ValueError):
        return before
    return cost + 0.0 if math.isfinite(cost) and cost >= 0 else before
