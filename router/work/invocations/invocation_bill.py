"""The bill of one invocation, attempt by attempt: `extensions.model.ports.InvocationLedger` over
the stores of this process (docs/reference/extensions.md#metered).

begin   its price, its reservation in budgets, its record and, at the same time, its assignment's
        claim
take    counted by its price; where that is above what is reserved, more is reserved
end     its cost, and its usage event, which is stored beside what follows
close   when all of its events are stored, the answer may go out
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from router.budgets.invocation_budgets import InvocationBudgets, InvocationReservation
from router.budgets.model.prices import PricedAttempt, PricedUsage, Pricing
from router.budgets.prices.shared_ratios import SharedRatios
from router.contracts.assignment import Assignment
from router.contracts.decision import CANNOT_BE_STORED, INVOKED_TYPE, OVERLOADED, STREAMED_TYPE
from router.contracts.money import format_nanos
from router.contracts.provider import SUCCESS
from router.contracts.provider_request import ProviderRequest
from router.core.clock import Clock, steady
from router.core.crashpoints import crashpoint
from router.core.errors import BrokerUnavailable, StorageFull, StorageRefused
from router.delivery.consume.settlement import BUCKET_REFUSES
from router.extensions.model.failure import InvocationRefused
from router.work.assignment_claims import AssignmentClaims
from router.work.invocations.attempt_store import AttemptStore, Patience
from router.work.model.assignments import AssignmentLookup
from router.work.model.invocation_record import (
    InvocationRecord,
    draw_attempt_id,
    make_attempt_event,
)

CANCELLED = "cancelled"
USUAL_OUTPUT_TOKENS = 500  # of an answer, where a request does not allow more
USUAL_SECONDS = 10.0  # of an attempt, where it may not take longer: what a price by time reserves
USUAL_NANOS = 10_000_000  # 0.01: reserved where no price says what is to be expected
UNPRICED = PricedUsage(nanos=0, estimated=True)
_DIGITS = 9

T = TypeVar("T")


class BillingParts(Struct, frozen=True, kw_only=True):
    """What all bills of a process share. `clock`: the server's. `is_on`: ENABLE_USAGE_PUBLISH.

    `patience`: of askers, with the bucket of assignments."""

    store: AttemptStore
    patience: Patience
    claims: AssignmentClaims
    assignments: AssignmentLookup
    budgets: InvocationBudgets
    pricing: Pricing
    clock: Clock
    is_on: bool


class TakenParts(Struct):
    """What one attempt has taken, which goes back where its provider is not asked."""

    sequence: int | None = None  # of its record; None: nothing is metered
    # the revision of its assignment's key; None: it is not its assignment's bill
    claim: int | None = None
    may_be_bill: bool = False  # of its assignment
    reservation: InvocationReservation | None = None


class OpenAttempt(Struct):
    """The attempt that calls the provider now."""

    record: InvocationRecord
    taken: TakenParts
    reservation: InvocationReservation
    priced: PricedAttempt
    begun: float
    has_come: bool = False


class InvocationBill:
    """`event_type`: of its events."""

    def __init__(
        self, request: ProviderRequest, event_type: str, parts: BillingParts, now: Clock = steady
    ) -> None:
        self._request = request
        self._event_type = event_type
        self._parts = parts
        self._now = now
        self._attempt: OpenAttempt | None = None
        self._stores: list[asyncio.Task[bool]] = []
        self._usage: PricedUsage | None = None
        self._nanos = 0

    @property
    def cost(self) -> float:
        """Of the attempt that ended last."""
        return self._usage.cost if self._usage is not None else 0.0

    def describe(self) -> dict[str, str]:
        """What was billed, as metadata: the cost of all attempts, and what the last one used."""
        usage = self._usage
        if usage is None:
            return {}
        told = {
            "model": usage.model,
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "price": usage.price,
            "estimated": "true" if usage.estimated else None,
        }
        return {
            "cost": format_nanos(self._nanos),
            **{name: str(value) for name, value in told.items() if value is not None},
        }

    async def begin(self, model: str | None, timeout_s: float) -> None:
        parts, at = self._parts, self._parts.clock()
        record, expected = self._make_record(model, at, timeout_s)
        priced = parts.pricing.open(self._request, at=at, model=model, expected=expected)
        assignment = await self._find_assignment() if parts.is_on else None
        if assignment is not None:
            record = replace(
                record,
                assignment_id=assignment.assignment_id,
                assigned_request_id=assignment.request_id,
            )
        taken = TakenParts()
        try:
            record, reservation = await self._take_parts(record, expected, assignment, taken)
        except BaseException:
            # a cancellation as well: the provider is not asked, so what was taken for it goes back
            self._take_back(record, taken)
            raise
        self._attempt = OpenAttempt(record, taken, reservation, priced, self._now())
        crashpoint("invocation_recorded")

    def take(self, data: str | bytes, metadata: Mapping[str, str]) -> None:
        if self._attempt is not None:
            self._attempt.has_come = True
            self._attempt.priced.take(data, metadata)

    def require_budget(self) -> None:
        if self._attempt is not None:
            seconds = self._now() - self._attempt.begun
            self._attempt.reservation.grow(self._attempt.priced.estimate_so_far(seconds))

    def end(self, status: str, *, was_sent: bool = True) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        if not (was_sent or attempt.has_come):
            self._take_back(attempt.record, attempt.taken)
            return
        crashpoint("invocation_ended")
        self._usage = usage = attempt.priced.conclude(
            self._now() - attempt.begun, is_complete=status == SUCCESS
        )
        self._nanos += usage.nanos
        if attempt.taken.sequence is not None:
            self._stores.append(asyncio.create_task(self._store(attempt, usage, status)))

    async def close(self) -> bool:
        """Whether every attempt is metered. One that is open is cancelled. The events go on being
        stored when the caller is cancelled.
        """
        self.end(CANCELLED)
        if len(self._stores) == 1:  # nearly always
            return await asyncio.shield(self._stores[0])
        return all(await asyncio.shield(asyncio.gather(*self._stores)))

    def _make_record(
        self, model: str | None, at: float, timeout_s: float
    ) -> tuple[InvocationRecord, int]:
        """The record, and what the attempt is expected to cost, in nanos."""
        request, begun_ms = self._request, round(at * 1000)
        priced = self._expect(model, at, min(timeout_s, USUAL_SECONDS))
        usage = priced if priced is not None else UNPRICED
        record = InvocationRecord(
            attempt_id=draw_attempt_id(),
            tenant_id=request.tenant_id,
            provider_id=request.provider_id,
            event_type=self._event_type,
            request_id=request.request_id,
            trace_id=request.trace_id,
            begun_ms=begun_ms,
            deadline_ms=begun_ms + round(timeout_s * 1000),
            nanos=usage.nanos,
            model=usage.model,
            input_tokens=usage.input_tokens,
            price=usage.price,
        )
        return record, USUAL_NANOS if priced is None else usage.nanos

    def _expect(self, model: str | None, at: float, seconds: float) -> PricedUsage | None:
        """What it costs by its price with an answer as long as may be expected, after these
        seconds; None without a price.
        """
        expected = self._parts.pricing.open(self._request, at=at, model=model)
        return expected.expect(_read_most_tokens(self._request), seconds)

    async def _find_assignment(self) -> Assignment | None:
        """The assignment that it is invoked for, under its id. Raises InvocationRefused."""
        request, assignments = self._request, self._parts.assignments
        if request.metadata.get("assignment_id") != request.request_id:
            return None
        assignment = assignments.recall(request.request_id)
        if assignment is None:
            assignment = await self._ask_or_refuse(
                assignments.lookup(request.request_id, lambda looked_up: looked_up)
            )
        is_its_own = assignment is not None and (assignment.tenant_id, assignment.provider_id) == (
            request.tenant_id,
            request.provider_id,
        )
        return assignment if is_its_own else None

    async def _ask_or_refuse(self, asking: Awaitable[T]) -> T:
        """Raises InvocationRefused where the bucket of assignments cannot be asked."""
        patience = self._parts.patience
        try:
            answer = await asking
        except (BrokerUnavailable, StorageFull) as exc:
            patience.note(is_refused=isinstance(exc, StorageRefused))
            raise _make_refusal(patience) from exc
        patience.note(is_refused=False)
        return answer

    async def _take_parts(
        self,
        record: InvocationRecord,
        expected: int,
        assignment: Assignment | None,
        taken: TakenParts,
    ) -> tuple[InvocationRecord, InvocationReservation]:
        """Reserve, record and claim. The attempt that is its assignment's bill uses what that has
        reserved, any other one reserves itself.

        Raises InvocationRefused; what is taken by then is in `taken`.
        """
        budgets, request = self._parts.budgets, self._request
        assigned = assignment.reservation if assignment is not None else None
        own = taken.reservation = (
            await budgets.reserve(request, expected) if assigned is None else None
        )
        record = replace(record, reservation=assigned if own is None else own.header)
        if assignment is not None:
            await self._record_and_claim(record, assignment, taken)
        elif self._parts.is_on:
            taken.sequence = await self._parts.store.keep(record)
        if own is not None:
            return record, own
        reservation = taken.reservation = await budgets.reserve(
            request, expected, assigned, is_bill=taken.claim is not None
        )
        return replace(record, reservation=reservation.header), reservation

    async def _record_and_claim(
        self, record: InvocationRecord, assignment: Assignment, taken: TakenParts
    ) -> None:
        """At the same time: a router that dies leaves no claim of an attempt that no record tells
        of.
        """
        store, claims = self._parts.store, self._parts.claims
        taken.may_be_bill = await self._ask_or_refuse(
            claims.may_claim(assignment, record.deadline_ms)
        )
        if not taken.may_be_bill:
            taken.sequence = await store.keep(record)
            return
        claiming = asyncio.create_task(
            self._ask_or_refuse(claims.claim(assignment.assignment_id, record.key))
        )
        try:
            taken.sequence = await store.keep(record)
            await claiming
        finally:
            # where the record was refused. A claim that is under way then is given back
            claiming.cancel()
            if claiming.done() and not claiming.cancelled() and claiming.exception() is None:
                taken.claim = claiming.result()

    def _take_back(self, record: InvocationRecord, taken: TakenParts) -> None:
        """It reached no provider."""
        if taken.claim is not None and record.assignment_id is not None:
            self._parts.claims.release(record.assignment_id, taken.claim)
        if taken.reservation is not None:
            taken.reservation.release()
        if taken.sequence is not None:
            self._parts.store.forget(taken.sequence)

    async def _store(self, attempt: OpenAttempt, usage: PricedUsage, status: str) -> bool:
        store, at_ms = self._parts.store, round(self._parts.clock() * 1000)
        record, latency_ms = (
            replace(attempt.record, reservation=attempt.reservation.header),
            round((self._now() - attempt.begun) * 1000),
        )
        event = make_attempt_event(record, usage, status, latency_ms=latency_ms, timestamp=at_ms)
        has_claim = attempt.taken.claim is not None
        is_bill = (
            status == SUCCESS
            and attempt.taken.may_be_bill
            and (has_claim or await self._take_over(record))
        )
        is_further = has_claim and not is_bill  # the reservation stays its assignment's
        if is_further and record.assignment_id is not None:
            await self._parts.claims.end(record.assignment_id, record.key)
        if not await store.meter(
            record, event, is_bill=is_bill or is_further, has_other_bill=is_further
        ):
            return False
        crashpoint("invocation_metered")
        if attempt.taken.sequence is not None:
            store.forget(attempt.taken.sequence)
        return True

    async def _take_over(self, record: InvocationRecord) -> bool:
        """Whether it is the bill of its assignment in place of an attempt whose router died."""
        try:
            return record.assignment_id is not None and await self._parts.claims.take_over(
                record.assignment_id, record.key
            )
        except (BrokerUnavailable, StorageFull):
            return False


def _make_refusal(patience: Patience) -> InvocationRefused:
    if patience.is_over:
        text = "The assignment cannot be looked up until an operator mends its bucket"
        return InvocationRefused(CANNOT_BE_STORED, text, {"cause": BUCKET_REFUSES})
    return InvocationRefused(OVERLOADED, "The assignment cannot be looked up now; try again", {})


def _read_most_tokens(request: ProviderRequest) -> int:
    """How long an answer the request allows. A tenant that allows little reserves the usual amount
    all the same.
    """
    value = request.parameters.get("max_tokens")
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    is_count = 0 < len(text) <= _DIGITS and text.isascii() and text.isdigit()
    return max(int(text), USUAL_OUTPUT_TOKENS) if is_count else USUAL_OUTPUT_TOKENS


# -- Meters invocations of providers, attempt by attempt (docs/reference/extensions.md#metered).
#
# a request ── open ──> InvocationBill ──> AttemptStore: a record before each call, a usage event after it
#
# While nothing can be stored no provider is asked: what it did could not be metered.


class InvocationMetering:
    """Of the process that serves providers."""

    def __init__(self, parts: BillingParts, ratios: SharedRatios) -> None:
        self._parts = parts
        self._ratios = ratios

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """For the duration of the block. Raises BrokerUnavailable."""
        async with self._parts.store.open(), self._parts.claims.open():
            yield

    def is_paused(self, tenant_id: str) -> bool:
        """Whether no provider may be asked for this tenant now."""
        return self._parts.is_on and self._parts.store.is_paused(tenant_id)

    def make_refusal(self) -> InvocationRefused:
        """Why none may."""
        return self._parts.store.make_refusal()

    def begin(self, request: ProviderRequest, *, is_stream: bool) -> InvocationBill:
        """The bill of an invocation that begins now."""
        self._ratios.want(request.tenant_id)
        return InvocationBill(request, STREAMED_TYPE if is_stream else INVOKED_TYPE, self._parts)
