"""Usage events by a reader of its own: JSON with decimals, each identity once, the first in the
stream. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from hashlib import sha256
from typing import Any

from msgspec import Struct

NANO = Decimal("0.000000001")
# `budget` moves one budget, and is no money of the bill
MONEY_ADJUSTMENTS = ("outcome", "held", "bill")


class Event(Struct, frozen=True):
    """What the rig needs of one usage event. `is_marked`: of an assignment that is not known; it is
    no money of the bill.
    """

    event_id: str
    tenant: str
    provider: str
    kind: str
    status: str
    cost: Decimal
    timestamp: int
    assignment_id: str | None
    request_id: str | None
    is_marked: bool
    is_estimated: bool
    is_held: bool
    adjustment: str | None

    @property
    def reference(self) -> str:
        return self.assignment_id or self.request_id or ""

    @property
    def is_invocation(self) -> bool:
        return self.kind.startswith("provider.invoke")


def read_events(stored: Iterable[bytes]) -> tuple[list[Event], int]:
    """The first event of each identity in the order of the stream, and how many came again."""
    found: dict[str, Event] = {}
    again = 0
    for data in stored:
        event = _read(json.loads(data, parse_float=Decimal, parse_int=Decimal))
        again += event.event_id in found
        found.setdefault(event.event_id, event)
    return list(found.values()), again


def _read(body: dict[str, Any]) -> Event:
    return Event(
        event_id=body.get("event_id") or _identity(body),
        tenant=body["tenant_id"],
        provider=body["provider_id"],
        kind=body["event_type"],
        status=body["status"],
        cost=Decimal(body["cost"]).quantize(NANO, ROUND_HALF_UP),
        timestamp=int(body["timestamp"]),
        assignment_id=body.get("assignment_id"),
        request_id=body.get("request_id"),
        is_marked=body.get("correlated") is False,
        is_estimated=body.get("estimated") is True,
        is_held="told_cost" in body,
        adjustment=body.get("adjustment"),
    )


def _identity(body: dict[str, Any]) -> str:
    """The rule for an event that does not name its own: docs/reference/contracts.md#usage-identity."""
    named = [body["tenant_id"], body.get("assignment_id") or body.get("request_id"), body["status"]]
    return (
        "usage:"
        + sha256(json.dumps(named, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()[
            :32
        ]
    )
