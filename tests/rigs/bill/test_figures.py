"""The rig's own verdict: each way in which a bill may be wrong is found."""

from decimal import Decimal
from typing import Any

import pytest

from tests.rigs.bill.figures import BillFigures, compare, render_page
from tests.rigs.bill.upstream import UpstreamCall

CALL = UpstreamCall(0, "one", False, None, (2, 12))


def an_event(**fields: Any) -> dict[str, Any]:
    given = {"request_id": "bill-0", "provider_id": "one", "status": "success", "cost": 0.25}
    return {**given, "input_tokens": 2, "output_tokens": 12, **fields}


def judge(
    *events: dict[str, Any], answer: str = "200", settled: str = "0.25", calls: int = 1
) -> BillFigures:
    return compare(
        [answer], [CALL] * calls, events, kills={}, settled=Decimal(settled), seconds=1.0
    )


def test_one_event_for_one_call_holds() -> None:
    assert judge(an_event()).is_kept


@pytest.mark.parametrize(
    ("found", "figure"),
    [
        (judge(settled="0"), "lost"),
        (judge(an_event(), an_event(), settled="0.5"), "double"),
        (judge(an_event(status="timeout")), "unbilled_answers"),
        (judge(an_event(output_tokens=3)), "wrong_tokens"),
        (judge(an_event(), answer="unanswered"), "unanswered"),
        (judge(an_event(), settled="0.26"), "budget_off"),
    ],
)
def test_a_wrong_bill_is_found(found: BillFigures, figure: str) -> None:
    assert float(getattr(found, figure)) != 0
    assert not found.is_kept
    assert "does not hold" in render_page(found, {})


def test_a_further_attempt_is_a_call_of_its_own() -> None:
    failed = UpstreamCall(0, "two", False, "500")
    events = [an_event(), an_event(request_id="bill-0~2", provider_id="two", cost=0.0)]
    found = compare(["200"], [CALL, failed], events, kills={}, settled=Decimal("0.25"), seconds=1.0)
    assert found.is_kept
    assert (found.calls, found.events, found.asked_twice) == (2, 2, 0)


def test_an_estimate_may_differ_from_what_was_told() -> None:
    found = judge(an_event(output_tokens=3, estimated=True))
    assert (found.wrong_tokens, found.estimated_told, found.is_kept) == (0, 1, True)
