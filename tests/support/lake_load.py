"""A second opinion on a load: read message by message with Decimal, slowly and plainly."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from router.contracts.usage import UsageEvent, identity

TOKENS = ("input_tokens", "cached_tokens", "output_tokens")
COSTS = ("cost", "adjustment_cost", "uncorrelated_cost", "estimated_cost")
COUNTS = ("adjustment_count", "uncorrelated_count", *TOKENS)
NINE = Decimal("0.000000001")


def read_plainly(
    bodies: Iterable[bytes],
) -> tuple[dict[tuple[str, ...], dict[str, Any]], Counter[str]]:
    """Sums of what is accepted, by (day, tenant, provider, type, status, model), and counts of
    everything.
    """
    cells: dict[tuple[str, ...], dict[str, Any]] = {}
    first: dict[str, tuple[object, ...]] = {}
    counts: Counter[str] = Counter()
    for data in bodies:
        body = as_event(data)
        if body is None:
            counts["malformed"] += 1
            continue
        content = (body["provider_id"], body["event_type"], body["latency_ms"], body["cost"])
        said = first.setdefault(id_of(body), content)
        if said is not content:
            counts["duplicates" if said == content else "conflicts"] += 1
            continue
        counts["accepted"] += 1
        _add(cells, body)
    return cells, counts


def as_event(data: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(data, parse_float=Decimal)
        texts = all(
            isinstance(body[name], str)
            for name in ("tenant_id", "provider_id", "event_type", "status")
        )
        whole = all(
            isinstance(body[name], int) for name in ("latency_ms", "timestamp")
        ) and isinstance(body["cost"], Decimal)
        return (
            body
            if texts
            and whole
            and any(body.get(name) for name in ("assignment_id", "request_id", "adjustment"))
            else None
        )
    except (ValueError, KeyError, TypeError):
        return None


def id_of(body: dict[str, Any]) -> str:
    names = (
        "tenant_id",
        "provider_id",
        "event_type",
        "status",
        "assignment_id",
        "request_id",
        "event_id",
    )
    named = {name: body.get(name) for name in names}
    return identity(UsageEvent(**named, latency_ms=0, cost=0.0, timestamp=0))


def _add(cells: dict[tuple[str, ...], dict[str, Any]], body: dict[str, Any]) -> None:
    day = datetime.fromtimestamp(body["timestamp"] / 1000, UTC).strftime("%Y-%m-%d")
    key = (
        day,
        body["tenant_id"],
        body["provider_id"],
        body["event_type"],
        body["status"],
        body.get("model", ""),
    )
    cell = cells.setdefault(
        key, {**dict.fromkeys(COSTS, Decimal(0)), **dict.fromkeys(COUNTS, 0), "latencies": []}
    )
    cost = body["cost"].quantize(NINE, ROUND_HALF_UP)
    if body.get("correlated") is False:
        cell["uncorrelated_cost"] += cost
        cell["uncorrelated_count"] += 1
        return
    cell["cost"] += cost
    if "adjustment" in body:
        cell["adjustment_cost"] += cost
        cell["adjustment_count"] += 1
        return
    cell["latencies"].append(body["latency_ms"])
    cell["estimated_cost"] += cost if body.get("estimated") else 0
    for name in TOKENS:
        cell[name] += body.get(name, 0)
