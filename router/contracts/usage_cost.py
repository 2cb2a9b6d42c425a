"""A stored usage event as the settlement of budgets reads it: who spent how much, exactly.

The cost is read from its text as the lake reads it, half up beyond nine places, and never as a
float.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from router.contracts.codec import UNREADABLE_ERRORS
from router.contracts.money import round_to_nanos
from router.contracts.request import ADJUSTMENT_TYPE
from router.contracts.usage import ADJUSTMENTS, IDENTITY_FORM, identity_of


class UsageCost(Struct, frozen=True, gc=False):
    """One event. `event_id`: its identity; `nanos`: the cost, below 0 in adjustments alone.

    `reference`: the assignment or request whose first event ends its reservation; None: the event
    itself does, or it is an adjustment. `is_correlated`: else it spends no budget. `budget`: the
    only one in which an adjustment of a budget counts.
    """

    tenant_id: str
    provider_id: str
    reference: str | None
    event_id: str
    nanos: int
    is_correlated: bool = True
    adjustment: str | None = None
    budget: str | None = None


class _UsageBody(Struct, gc=False):
    tenant_id: str
    provider_id: str
    event_type: str
    status: str
    cost: Any
    assignment_id: str | None = None
    request_id: str | None = None
    event_id: Annotated[str, Meta(pattern=IDENTITY_FORM)] | None = None
    adjustment: str | None = None
    budget: str | None = None
    correlated: bool = True


def read_usage_cost(data: bytes) -> UsageCost | None:
    """None for bytes that are no event: the lake puts them aside too."""
    try:
        body = _decode(data)
        nanos = round_to_nanos(Decimal(body.cost))
    except (*UNREADABLE_ERRORS, InvalidOperation, ValueError, TypeError):
        return None
    ids = body.assignment_id or body.request_id
    if not (_is_adjustment(body) if body.adjustment is not None else _is_outcome(body, ids, nanos)):
        return None
    event_id = body.event_id or identity_of(body.tenant_id, ids, body.status)
    reference = ids if body.event_id is None else None
    return UsageCost(
        body.tenant_id,
        body.provider_id,
        reference,
        event_id,
        nanos,
        body.correlated,
        body.adjustment,
        body.budget,
    )


def _is_adjustment(body: _UsageBody) -> bool:
    return (
        body.adjustment in ADJUSTMENTS
        and body.event_type == ADJUSTMENT_TYPE
        and body.event_id is not None
    )


def _is_outcome(body: _UsageBody, ids: str | None, nanos: int) -> bool:
    """No payer and no worker makes an outcome that takes money off a bill, or that passes for an
    adjustment.
    """
    return bool(ids) and nanos >= 0 and body.event_type != ADJUSTMENT_TYPE


_decode = msgspec.json.Decoder(_UsageBody, float_hook=Decimal).decode
