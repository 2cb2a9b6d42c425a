"""The worked examples of the page on money are what the code makes of the same words: prices,
bounds, corrections.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal

import pytest

from router.budgets.model.held_cost import make_held_adjustment
from router.budgets.model.prices import PricedUsage, PriceList, PriceTable, Pricing, parse_price
from router.contracts.money import NANOS
from router.contracts.provider_request import ProviderRequest
from router.contracts.usage import UsageEvent
from router.work.model import CostBound, MeteredEvent, make_correction
from router.work.model.invocation_record import InvocationRecord, make_unfinished_event
from router.work.settings import ResultsConfig
from tests.docs.test_money_page import EQUATIONS, LABEL_END, compute
from tests.support.usage import a_usage_event

PRICE = {
    "provider": "openai",
    "currency": "USD",
    "input": "2.50",
    "cached_input": "1.25",
    "output": "10.00",
    "per_request": "0.001",
}
BOUND = CostBound(ResultsConfig())
PROMPT_OF_400 = "你" * 500  # by the documented count


def price(prompt: str = "", expected: Decimal = Decimal(0), **told: int) -> PricedUsage:
    """An invocation whose provider tells these figures."""
    attempt = a_pricing().open(a_request(prompt), at=0.0, expected=int(expected * NANOS))
    attempt.take("said", {name: str(value) for name, value in told.items()})
    return attempt.conclude(0.0, is_complete=False)


def expect(prompt: str) -> PricedUsage:
    expected = a_pricing().open(a_request(prompt), at=0.0).expect(500, 0.0)
    assert expected is not None
    return expected


def a_pricing() -> Pricing:
    table = PriceTable()
    table.replace([PriceList((parse_price(PRICE),))])
    return Pricing(
        table, max_cost=1e9, unpriced=BOUND.find_of(0.01), factor=BOUND.factor, floor=BOUND.floor
    )


def a_request(prompt: str) -> ProviderRequest:
    return ProviderRequest(
        tenant_id="acme", provider_id="openai", request_id="r", trace_id="t", body=prompt
    )


def an_outcome(status: str, told: float, expected_cost: float = 0.02) -> UsageEvent:
    """As a result that is booked at its bound where it says more."""
    bound = BOUND.find_of(expected_cost)
    told_cost = told if told > bound else None
    return a_usage_event(
        assignment_id="a", status=status, cost=min(told, bound), told_cost=told_cost
    )


def correct(first: float, later: float) -> UsageEvent:
    """A timeout, and then a success."""
    made = make_correction(
        MeteredEvent(an_outcome("timeout", first), 0), an_outcome("success", later), 0, 1
    )
    assert made is not None
    return made


def meter_unfinished() -> float:
    record = InvocationRecord(
        tenant_id="acme",
        provider_id="openai",
        attempt_id="0" * 32,
        event_type="provider.invoke",
        request_id="r",
        trace_id="t",
        begun_ms=0,
        deadline_ms=1,
        nanos=expect(PROMPT_OF_400).nanos,
    )
    return make_unfinished_event(record).cost


FAR_MORE = price(PROMPT_OF_400, Decimal("0.007"), completion_tokens=1_000_000)
EXAMPLES: Mapping[str, Callable[[], float]] = {
    "a2, adjustment": lambda: correct(0.004, 0.018).cost,
    "a3, bound": lambda: an_outcome("success", 350).cost,
    "a3, held": lambda: make_held_adjustment(an_outcome("success", 350), None).cost,
    "a3, set to 0.05": lambda: (
        an_outcome("success", 350).cost
        + make_held_adjustment(an_outcome("success", 350), 0.05).cost
    ),
    "a4, bound": lambda: an_outcome("success", 350, 0.00002).cost,
    "a5, bound": lambda: correct(0.5, 350).cost,
    "a5, set by -0.40": lambda: make_held_adjustment(correct(0.5, 350), -0.4).cost,
    "i1": lambda: price(prompt_tokens=1200, cached_tokens=800, completion_tokens=300).cost,
    "i9, expected": lambda: expect(PROMPT_OF_400).cost,
    "i9, bound": lambda: FAR_MORE.cost,
    "i9, told": lambda: (FAR_MORE.told_nanos or 0) / NANOS,
    "i9, held": lambda: ((FAR_MORE.told_nanos or 0) - FAR_MORE.nanos) / NANOS,
    "i2, second attempt": lambda: price(prompt_tokens=1000, completion_tokens=900).cost,
    "i3": lambda: price(prompt_tokens=400, completion_tokens=150).cost,
    "i4": meter_unfinished,
    "i5, reserved": lambda: expect(PROMPT_OF_400).cost,
    "i5, spent": lambda: price(prompt_tokens=400, completion_tokens=501).cost,
}
ON_PAGE = {line[:LABEL_END].strip(): line[LABEL_END:].split("=")[1] for line in EQUATIONS}


@pytest.mark.parametrize("label", EXAMPLES)
def test_the_code_comes_to_what_the_page_says(label: str) -> None:
    assert EXAMPLES[label]() == pytest.approx(float(compute(ON_PAGE[label])), abs=1e-12)
