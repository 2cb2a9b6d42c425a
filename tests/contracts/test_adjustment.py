"""The adjustment of a usage event: what it holds, its identity, and the header that its policy's
budgets need.
"""

from __future__ import annotations

from decimal import Decimal

import orjson
import pytest
from msgspec.structs import replace

from router.budgets.model.held_cost import (
    BILL,
    BUDGET,
    HELD,
    OUTCOME,
    adjust_event,
    derive_held_identity,
    difference,
    make_adjustment,
    make_adjustment_effect,
    make_held_adjustment,
    operator_identity,
    outcome_identity,
)
from router.budgets.model.reservation import (
    BudgetReservation,
    policy_only,
    read_reservation,
    reservation_text,
)
from router.contracts.money import round_to_nanos
from router.contracts.usage import assignment_identity
from tests.support.usage import a_usage_event

BILLED = a_usage_event(
    cost=0.3,
    status="timeout",
    timestamp=1_700_000_000_000,
    assignment_id="a-1",
    request_id="r-1",
    event_id=assignment_identity("acme", "a-1"),
)


def test_an_adjustment_counts_under_the_model_of_what_it_corrects_and_has_no_tokens() -> None:
    """Tokens are of the outcome: with them here, they would count twice."""
    used = replace(BILLED, model="large", input_tokens=10, price="openai/large#3")
    made = adjust_event(
        OUTCOME, used, Decimal("-0.1"), event_id=outcome_identity(BILLED.event_id or "")
    )
    assert (made.model, made.input_tokens, made.price) == ("large", None, None)
    assert (
        adjust_event(
            OUTCOME, BILLED, Decimal("-0.1"), event_id=outcome_identity(BILLED.event_id or "")
        ).model
        is None
    )


def test_an_adjustment_of_an_event_takes_its_ids_and_its_time_and_names_it() -> None:
    made = adjust_event(
        OUTCOME,
        BILLED,
        Decimal("-0.1"),
        event_id=outcome_identity(BILLED.event_id or ""),
        reason="later",
    )
    assert orjson.loads(make_adjustment_effect(made).data) == {
        "version": "1",
        "tenant_id": "acme",
        "provider_id": "openai",
        "event_type": "usage.adjustment",
        "latency_ms": 0,
        "cost": -0.1,
        "status": "success",
        "timestamp": 1_700_000_000_000,
        "assignment_id": "a-1",
        "request_id": "r-1",
        "event_id": made.event_id,
        "adjustment": "outcome",
        "adjusts": BILLED.event_id,
        "reason": "later",
    }


def test_an_adjustment_of_a_period_names_no_event() -> None:
    made = make_adjustment(
        BUDGET,
        event_id=operator_identity(BUDGET, "acme", "c-1"),
        tenant_id="acme",
        provider_id="openai",
        amount=Decimal(5),
        timestamp=1,
        budget="month",
    )
    effect = make_adjustment_effect(made)
    assert (effect.subject, effect.id, effect.headers) == (
        "beamline.usage.v1.adjusted",
        made.event_id,
        {},
    )
    body = orjson.loads(effect.data)
    assert body["cost"] == 5.0
    assert not body.keys() & {"adjusts", "assignment_id", "request_id", "model"}
    assert b'"cost":5.0' in effect.data


def test_each_kind_and_each_command_has_an_identity_of_its_own() -> None:
    ids = {
        outcome_identity("usage:1"),
        outcome_identity("usage:2"),
        derive_held_identity("usage:1"),
        operator_identity(BILL, "acme", "1"),
        operator_identity(BUDGET, "acme", "1"),
        operator_identity(BILL, "beta", "1"),
        operator_identity(BILL, "acme", "2"),
    }
    assert len(ids) == 7


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (0.1, 0.3),
        (0.3, 0.1),
        (1e-9, 0.02),
        (123456.789012345, 0.0),
        (0.1 + 0.2, 0.7),
        (4e-10, 5e-10),
    ],
)
def test_the_difference_added_to_the_first_cost_is_the_later_cost_to_the_last_digit(
    before: float, after: float
) -> None:
    made = adjust_event(HELD, BILLED, difference(after, before), event_id="usage:" + "0" * 32)
    nanos = [round_to_nanos(Decimal(repr(cost))) for cost in (before, made.cost, after)]
    assert nanos[0] + nanos[1] == nanos[2]


def test_a_cost_that_stays_has_no_negative_zero() -> None:
    assert (
        repr(adjust_event(HELD, BILLED, Decimal("-0.0"), event_id="usage:" + "0" * 32).cost)
        == "0.0"
    )


def test_the_header_of_an_adjustment_names_the_policy_and_ends_no_reservation() -> None:
    header = reservation_text(
        BudgetReservation("life-1", 2_000_000, "chat", {"month/policy=chat": 3})
    )
    kept = read_reservation(policy_only(header))
    assert kept == BudgetReservation("life-1", 0, "chat", {})
    assert make_adjustment_effect(BILLED, header).headers == {"Router-Reservation": "life-1 0 chat"}
    assert policy_only(None) is None
    assert policy_only("x") is None


def test_what_is_held_of_a_correction_is_an_adjustment_of_the_bill() -> None:
    """What stands on a bill is found by the adjustments that name it."""
    correction = adjust_event(
        OUTCOME, BILLED, Decimal("1.7"), event_id=outcome_identity(BILLED.event_id or "")
    )
    correction = replace(correction, told_cost=349.7)
    made = make_held_adjustment(correction, None)
    assert (made.adjusts, made.cost) == (BILLED.event_id, 348.0)
    assert (
        made.event_id
        == derive_held_identity(correction.event_id or "")
        != derive_held_identity(BILLED.event_id or "")
    )
