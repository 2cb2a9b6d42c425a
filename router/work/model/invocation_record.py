"""One attempt to invoke a provider: its record in the bucket `ROUTER_INVOCATIONS`
(docs/reference/extensions.md#attempt-record), and its usage event.

    {tenant}.{attempt id}        stands from before the call until the attempt's usage event is
                                 stored

The attempt's id is drawn by the router, and its usage event has the identity `usage:{attempt id}`.
So an instance that finds the record of an attempt without an end makes the event that the attempt's
own instance would have made, and the stream stores one of them.
"""

from __future__ import annotations

import secrets
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from router.budgets.model.prices import PricedUsage
from router.budgets.model.reservation import policy_only
from router.contracts.money import NANOS
from router.contracts.provider import TIMEOUT
from router.contracts.result import MAX_LATENCY_MS
from router.contracts.stored_record import RecordKind
from router.contracts.usage import UsageEvent, assignment_identity
from router.core import ids
from router.core.message import Effect
from router.work.model.metering import make_usage_effect

RECORD_VERSION = "1"
_Count = Annotated[int, Meta(ge=0)]


class InvocationRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`begun_ms` and `deadline_ms`: by the server's clock. `nanos`: what it costs where it has no
    end.
    """

    version: str = RECORD_VERSION
    attempt_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    tenant_id: str
    provider_id: str
    event_type: str
    request_id: str
    trace_id: str
    begun_ms: _Count
    deadline_ms: _Count
    nanos: _Count = 0
    model: str | None = None
    input_tokens: int | None = None
    price: str | None = None
    reservation: str | None = None  # the header of its usage event
    assignment_id: str | None = None  # that it may be the bill of (`assignment_record.invoked_key`)
    assigned_request_id: str | None = None  # that assignment's

    @property
    def key(self) -> str:
        return ids.key(self.tenant_id, self.attempt_id)

    @property
    def event_id(self) -> str:
        """The identity of its usage event, unless that is its assignment's."""
        return f"usage:{self.attempt_id}"


def draw_attempt_id() -> str:
    """Not to be guessed or chosen by who pays."""
    return secrets.token_hex(16)


read_record = RecordKind(InvocationRecord, "the record of an invocation").read


# -- Make the usage event of one attempt to invoke a provider
# (docs/reference/extensions.md#metered). Pure.
#
# it ended          its status, and what it cost by its price, by what passed by, or as it was told
# it has no end     status timeout, at its deadline, estimated: the same event whichever instance
#                   makes it


ATTEMPT_HEADER = "Router-Attempt"  # of an assignment's bill: no worker's word has it


def make_attempt_event(
    record: InvocationRecord, usage: PricedUsage, status: str, *, latency_ms: int, timestamp: int
) -> UsageEvent:
    """Under an identity of its own."""
    return UsageEvent(
        tenant_id=record.tenant_id,
        provider_id=record.provider_id,
        event_type=record.event_type,
        latency_ms=min(latency_ms, MAX_LATENCY_MS),
        cost=usage.cost,
        status=status,
        timestamp=timestamp,
        trace_id=record.trace_id,
        request_id=record.request_id,
        event_id=record.event_id,
        model=usage.model,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        price=usage.price,
        is_estimated=usage.estimated,
        told_cost=None if usage.told_nanos is None else usage.told_nanos / NANOS,
    )


def make_unfinished_event(record: InvocationRecord) -> UsageEvent:
    """Of an attempt whose end no instance has told by its deadline."""
    usage = PricedUsage(
        nanos=record.nanos,
        model=record.model,
        input_tokens=record.input_tokens,
        price=record.price,
        estimated=True,
    )
    latency_ms = max(record.deadline_ms - record.begun_ms, 0)
    return make_attempt_event(
        record, usage, TIMEOUT, latency_ms=latency_ms, timestamp=record.deadline_ms
    )


def make_attempt_effect(record: InvocationRecord, event: UsageEvent) -> Effect:
    return make_usage_effect(event, reservation=record.reservation)


def make_bill_event(record: InvocationRecord, event: UsageEvent) -> UsageEvent:
    """The same attempt as the bill of its assignment, which its worker's result repeats."""
    assignment_id, request_id = (
        record.assignment_id,
        record.assigned_request_id or record.request_id,
    )
    event_id = assignment_identity(record.tenant_id, assignment_id or "")
    return replace(event, event_id=event_id, assignment_id=assignment_id, request_id=request_id)


def make_bill_effect(record: InvocationRecord, bill: UsageEvent) -> Effect:
    effect = make_attempt_effect(record, bill)
    return replace(effect, headers={**effect.headers, ATTEMPT_HEADER: record.attempt_id})


def make_further_effect(record: InvocationRecord, event: UsageEvent) -> Effect:
    """Of an attempt whose assignment has another bill already: the reservation was ended by that
    one.
    """
    return make_usage_effect(event, reservation=policy_only(record.reservation))
