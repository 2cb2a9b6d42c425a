"""A stored usage event as the settlement of budgets reads it: who spent how much, exactly.

The cost is read from its text as the lake reads it, half up beyond nine places, and never as a float.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from msgspec import Struct

from router.contracts.codec import UNREADABLE_ERRORS
from router.contracts.money import round_to_nanos
from router.contracts.usage import identity_of


class UsageCost(Struct, frozen=True, gc=False):
    """One event. `event_id`: its identity; `reference`: the assignment or request; `nanos`: the cost, below 0 in adjustments alone.

    `is_correlated`: else it spends no budget. `budget`: the one in which an adjustment of it counts."""

    tenant_id: str
    provider_id: str
    reference: str
    event_id: str
    nanos: int
    is_correlated: bool = True
    adjustment: str | None = None
    budget: str | None = None


class _UsageBody(Struct, gc=False):
    tenant_id: str
    provider_id: str
    status: str
    cost: Any
    assignment_id: str | None = None
    request_id: str | None = None
    event_id: str | None = None
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
    reference = body.assignment_id or body.request_id or ""
    if body.adjustment is None and (not reference or nanos < 0):
        return None
    event_id = body.event_id or identity_of(body.tenant_id, reference, body.status)
    return UsageCost(body.tenant_id, body.provider_id, reference, event_id, nanos, body.correlated, body.adjustment, body.budget)


_decode = msgspec.json.Decoder(_UsageBody, float_hook=Decimal).decode
