"""What a worker reports of an assignment: the honest result, or each hostile one. Pure.

Which of them follows from the tenant of the assignment: a hostile tenant and its worker act
together. `owed` is what is due for the work by the rules of docs/reference/contracts.md#usage,
whatever is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from zlib import crc32

from msgspec import Struct

from tests.rigs.money.prices import FLAT, GOOD

Json = dict[str, Any]

EXPECTED = Decimal("0.01")  # the policy's own, of each assignment
BOUND = EXPECTED * 100  # results.cost_factor: what is told above it is booked at it, and held
DEAR = Decimal("0.02")  # what each assignment of the row `free-first` costs, but the first
DEARER = Decimal("0.9")  # told, and replaced
DAY_MS = 86_400_000
NAN = float("nan")

STATUSES = ("timeout", "cancelled", "error", "success")


class Report(Struct, frozen=True):
    """What a worker does with an assignment. `told`: results in their order; `forged`: what the
    hostile worker sends after them.
    """

    owed: Decimal
    told: list[Json]
    forged: list[Json] = []


Move = Callable[[Json, Decimal], Report]


def report_of(assignment: Json) -> Report:
    """By the row that its tenant plays in."""
    role, _, row = str(assignment["tenant_id"]).partition("-")
    cost = cost_of(assignment["request_id"])
    if role == "good":
        return _honest(assignment, cost)
    return MOVES.get(row, _honest)(assignment, cost)


def cost_of(request_id: str) -> Decimal:
    """0.005 to 0.015, all nine decimals in use, by the request's id: work that is done again costs
    the same.
    """
    return (Decimal(5_000_001) + crc32(request_id.encode()) % 10_000_000) / 1_000_000_000


def number_of(assignment: Json) -> int:
    """Requests are called ROW-NUMBER."""
    return int(str(assignment["request_id"]).rpartition("-")[2])


def a_result(assignment: Json, cost: object, **changes: object) -> Json:
    """A whole result; a change to None leaves a field out. A cost that is a number is written as it
    stands.
    """
    whole = {
        "assignment_id": assignment["assignment_id"],
        "request_id": assignment["request_id"],
        "tenant_id": assignment["tenant_id"],
        "provider_id": GOOD,
        "status": "success",
        "latency_ms": 5,
        "cost": float(cost) if isinstance(cost, Decimal) else cost,
        "job": {"type": "chat"},
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not None}


def _honest(assignment: Json, cost: Decimal) -> Report:
    return Report(cost, [a_result(assignment, cost)])


# -- hostile workers


def _multiply_statuses(assignment: Json, cost: Decimal) -> Report:
    told = [
        a_result(assignment, cost, status=status, **{left_out: None})
        for left_out in ("request_id", "assignment_id")
        for status in STATUSES
    ]
    return Report(cost, told)


def _change_mind(assignment: Json, cost: Decimal) -> Report:
    """A later success replaces a timeout; nothing replaces a success. Of two final ones either may
    be stored first: they cost the same.
    """
    kinds = (
        ("timeout", "success"),
        ("success", "timeout"),
        ("success", "error"),
        ("cancelled", "success"),
    )
    statuses = kinds[number_of(assignment) % len(kinds)]
    costs = {"timeout": DEARER, "cancelled": DEARER}
    return Report(
        cost, [a_result(assignment, costs.get(status, cost), status=status) for status in statuses]
    )


def _name_another_provider(assignment: Json, cost: Decimal) -> Report:
    return Report(
        cost,
        [
            a_result(
                assignment,
                cost,
                provider_id=("elsewhere", "cheapest", TOO_LONG)[number_of(assignment) % 2],
            )
        ],
    )


TOO_LONG = "x" * 200


def _lie_about_costs(assignment: Json, cost: Decimal) -> Report:
    """What is no cost is refused, and the legal result that follows it counts; 0 and what is below
    a nano are costs.
    """
    illegal: tuple[object, ...] = (NAN, -5, float("inf"), True, "a lot", {})
    kind = number_of(assignment) % 8
    if kind < len(illegal):
        return Report(cost, [a_result(assignment, illegal[kind]), a_result(assignment, cost)])
    return Report(Decimal(0), [a_result(assignment, 0 if kind == 6 else 1e-12)])


def _tell_a_billion(assignment: Json, cost: Decimal) -> Report:
    return Report(BOUND, [a_result(assignment, 1e9)])


def _forge_unknown(assignment: Json, cost: Decimal) -> Report:
    """Bills for the honest tenant beside, for work that there never was."""
    tenant = _neighbour_of(assignment)
    forged = [
        a_result(
            assignment,
            told,
            tenant_id=tenant,
            assignment_id=f"made-up-{assignment['request_id']}",
            request_id=None,
            status=status,
        )
        for told, status in ((1e9, "success"), (0.5, "error"), (0.25, "timeout"))
    ]
    return Report(cost, [a_result(assignment, cost)], forged)


def _replay(assignment: Json, cost: Decimal) -> Report:
    one = a_result(assignment, cost)
    return Report(cost, [one, one], [one, one])


def _turn_the_clock(assignment: Json, cost: Decimal) -> Report:
    """A day behind, nearly a day ahead; what is too far off is refused, and the legal result that
    follows it counts.
    """
    now = int(time.time() * 1000)
    stamps = (now - DAY_MS, now + DAY_MS - 300_000, now - 20 * DAY_MS, now - 400 * DAY_MS)
    kind = number_of(assignment) % len(stamps)
    told = [a_result(assignment, cost, timestamp=stamps[kind])]
    return Report(cost, told if kind < 3 else [*told, a_result(assignment, cost)])


def _begin_for_free(assignment: Json, _: Decimal) -> Report:
    cost = DEAR if number_of(assignment) else Decimal(0)
    return Report(cost, [a_result(assignment, cost)])


def _cost_as_a_call(assignment: Json, _: Decimal) -> Report:
    """The same money whether the worker or a call under the assignment's id is metered first."""
    return Report(FLAT.per_request, [a_result(assignment, FLAT.per_request)])


def forge_beside(assignment: Json, hostile: str) -> list[Json]:
    """Of an honest tenant's assignment, once its result is metered."""
    return [
        a_result(assignment, 0.5, tenant_id=hostile),
        a_result(assignment, 0.5, tenant_id=hostile, request_id=None),
        a_result(assignment, 0.5, status="error"),
        a_result(assignment, 1e9, status="timeout", request_id=None),
        a_result(assignment, 0.5, tenant_id=None, status="cancelled"),
    ]


def _neighbour_of(assignment: Json) -> str:
    return f"good-{str(assignment['tenant_id']).partition('-')[2]}"


MOVES: dict[str, Move] = {
    "statuses": _multiply_statuses,
    "second-thoughts": _change_mind,
    "provider-named": _name_another_provider,
    "odd-costs": _lie_about_costs,
    "billions": _tell_a_billion,
    "unknown": _forge_unknown,
    "replays": _replay,
    "clock": _turn_the_clock,
    "free-first": _begin_for_free,
    "own-assignment": _cost_as_a_call,
}
