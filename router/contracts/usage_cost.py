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
    """One event. `event_id`: its identity; `reference`: the assignment or request; `nanos`: the cost."""

    tenant_id: str
    provider_id: str
    reference: str
    event_id: str
    nanos: int


class _UsageBody(Struct, gc=False):
    tenant_id: str
    provider_id: str
    status: str
    cost: Any
    assignment_id: str | None = None
    request_id: str | None = None


def read_usage_cost(data: bytes) -> UsageCost | None:
    """None for bytes that are no event: the lake puts them aside too."""
    try:
        body = _decode(data)
        nanos = round_to_nanos(Decimal(body.cost))
    except (*UNREADABLE_ERRORS, InvalidOperation, ValueError, TypeError):
        return None
    reference = body.assignment_id or body.request_id
    if not reference or nanos < 0:
        return None
    return UsageCost(body.tenant_id, body.provider_id, reference, identity_of(body.tenant_id, reference, body.status), nanos)


_decode = msgspec.json.Decoder(_UsageBody, float_hook=Decimal).decode
