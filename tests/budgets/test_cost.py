"""What an attempt costs, to the last digit (docs/reference/prices.md#cost)."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from router.budgets.model.prices import (
    CostLimits,
    PassedBy,
    PricedUsage,
    TokenRatios,
    compute_cost,
    estimate_so_far,
    parse_price,
)
from router.budgets.model.prices.price import AMOUNTS, Price
from router.contracts.usage import read_usage_cost, usage_bytes
from tests.support.usage import a_usage_event

GPT = parse_price(
    {
        "provider": "openai",
        "model": "gpt-4o",
        "input": "2.50",
        "cached_input": "1.25",
        "output": "10",
        "currency": "USD",
    }
)
MOST = 10**18


def passed_by(prompt: str = "", *pieces: tuple[str, dict[str, str]]) -> PassedBy:
    found = PassedBy(prompt)
    for data, metadata in pieces:
        found.take(data, metadata)
    return found


def told(**figures: object) -> dict[str, str]:
    return {name: str(value) for name, value in figures.items()}


def cost(
    price: Any, passed: PassedBy, seconds: float = 0.0, most: int = MOST, unpriced: int = 0
) -> PricedUsage:
    return compute_cost(
        price, passed, seconds, TokenRatios(), CostLimits(most, unpriced or most, Decimal(1), most)
    )


def test_the_example_of_the_page_told_and_cut() -> None:
    usage = told(model="gpt-4o", prompt_tokens=1200, completion_tokens=300, cached_tokens=200)
    found = cost(GPT, passed_by("x" * 4000, ("y" * 1000, usage)))
    assert found == PricedUsage(
        nanos=5_750_000,
        model="gpt-4o",
        input_tokens=1200,
        cached_tokens=200,
        output_tokens=300,
        price="openai/gpt-4o#0",
        estimated=False,
    )
    cut = cost(GPT, passed_by("hello " * 3000, *[(" you", {})] * 120))
    assert (cut.estimated, cut.nanos, cut.model) == (
        True,
        (cut.input_tokens or 0) * 2500 + (cut.output_tokens or 0) * 10_000,
        None,
    )


@given(
    st.lists(st.integers(0, 10**15), min_size=5, max_size=5),
    st.integers(0, 10**9 - 1),
    st.integers(0, 10**9 - 1),
    st.integers(0, 10**9 - 1),
    st.integers(0, 10**9),
)
def test_the_sum_is_exact_and_rounded_once(
    amounts: list[int], fresh: int, cached: int, output: int, micros: int
) -> None:
    texts = [format(Decimal(amount).scaleb(-9), "f") for amount in amounts]
    price = parse_price(
        {"provider": "p", "currency": "USD", **dict(zip(AMOUNTS, texts, strict=True))}
    )
    cached = min(cached, fresh)
    usage = told(prompt_tokens=fresh, cached_tokens=cached, completion_tokens=output)
    found = cost(price, passed_by("", ("", usage)), micros / 1_000_000, 10**40)
    inputs, hits, outputs, request, second = map(Decimal, texts)
    tokens = (inputs * (fresh - cached) + hits * cached + outputs * output).scaleb(-6)
    exact = (tokens + request + second * Decimal(micros).scaleb(-6)).quantize(
        Decimal("1e-9"), ROUND_HALF_UP
    )
    assert found.nanos == max(int(exact.scaleb(9)), 1 if any(amounts) else 0)


def test_half_a_nano_is_rounded_up_once_at_the_end() -> None:
    price = parse_price(
        {"provider": "p", "currency": "USD", "input": "0.00025", "output": "0.00025"}
    )
    # 0.5, where each alone would be 0
    assert cost(price, passed_by("", ("", told(prompt_tokens=1, completion_tokens=1)))).nanos == 1
    # 1.25
    assert cost(price, passed_by("", ("", told(prompt_tokens=3, completion_tokens=2)))).nanos == 1
    # 1.5: not the 1 of what is never free
    assert cost(price, passed_by("", ("", told(prompt_tokens=3, completion_tokens=3)))).nanos == 2


@pytest.mark.parametrize("amount", AMOUNTS)
def test_an_attempt_at_a_price_above_0_is_never_free(amount: str) -> None:
    price = parse_price({"provider": "p", "currency": "USD", amount: "0.000000001"})
    for passed in (passed_by(), passed_by("", ("", told(prompt_tokens=0, completion_tokens=0)))):
        assert cost(price, passed).nanos == 1
        assert estimate_so_far(price, passed, TokenRatios()) == 1


def test_a_price_of_0_is_free() -> None:
    price = parse_price({"provider": "own", "currency": "USD", "input": "0"})
    assert (
        cost(price, passed_by("hello", ("you", {}))).nanos,
        cost(price, passed_by("hello", ("you", {}))).output_tokens,
    ) == (0, 1)


def test_no_attempt_is_billed_above_the_bound() -> None:
    usage = told(prompt_tokens=999_999_999, completion_tokens=999_999_999)
    assert cost(GPT, passed_by("", ("", usage)), most=7).nanos == 7
    assert cost(None, passed_by("", ("", told(cost="1e15"))), most=7).nanos == 7


@pytest.mark.parametrize(
    "price", [GPT, replace(GPT, is_told=True), None], ids=["tokens", "cost", "no price"]
)
def test_what_is_held_of_an_attempt_is_not_above_the_bound_either(price: Price | None) -> None:
    """The tables refuse an event whose told cost is above `results.max_cost`, and it would be on no
    bill.
    """
    tells = told(prompt_tokens=999_999_999, completion_tokens=999_999_999, cost="1e15")
    found = compute_cost(
        price, passed_by("", ("", tells)), 0.0, TokenRatios(), CostLimits(7, 2, Decimal(1), 2)
    )
    assert (found.nanos, found.told_nanos) == (2, 7)


def test_0_tokens_of_a_text_are_not_believed() -> None:
    found = cost(
        GPT, passed_by("a question", ("an answer", told(prompt_tokens=0, completion_tokens=0)))
    )
    assert (found.estimated, bool(found.input_tokens), bool(found.output_tokens)) == (
        True,
        True,
        True,
    )


def test_cached_tokens_are_never_more_than_the_input_that_is_told_later() -> None:
    """A stream whose last word on its input is small would have a cost below 0, and be no event."""
    whole = ("a", told(prompt_tokens=900_000_000, cached_tokens=900_000_000))
    found = cost(GPT, passed_by("x", whole, ("b", told(prompt_tokens=1, completion_tokens=2))))
    assert (found.input_tokens, found.cached_tokens, found.nanos) == (1, None, 2500 + 2 * 10_000)
    later = cost(
        GPT,
        passed_by(
            "x",
            ("a", told(prompt_tokens=9, cached_tokens=4)),
            ("b", told(prompt_tokens=8, completion_tokens=2)),
        ),
    )
    assert (later.input_tokens, later.cached_tokens, later.nanos) == (
        8,
        4,
        4 * 2500 + 4 * 1250 + 2 * 10_000,
    )


def test_what_comes_after_the_provider_told_is_estimated() -> None:
    usage = told(prompt_tokens=100, completion_tokens=50)
    whole = cost(GPT, passed_by("x", ("a" * 200, usage)))
    cut = cost(GPT, passed_by("x", ("a" * 200, usage), (" one two three", {})))
    assert (whole.output_tokens, whole.estimated) == (50, False)
    assert (cut.output_tokens, cut.estimated) == (53, True)
    later = cost(
        GPT, passed_by("x", ("a" * 200, usage), (" one two three", told(completion_tokens=54)))
    )
    assert (later.input_tokens, later.output_tokens, later.estimated) == (100, 54, False)


def test_a_told_cost_counts_only_where_the_price_trusts_it() -> None:
    usage = ("answer", told(prompt_tokens=100, completion_tokens=50, cost="7"))
    assert cost(GPT, passed_by("x", usage)).nanos == 100 * 2500 + 50 * 10_000
    trusting = parse_price(
        {"provider": "openai", "input": "1", "output": "10", "currency": "USD", "trust": "told"}
    )
    found = cost(trusting, passed_by("x", usage))
    assert (found.nanos, found.output_tokens, found.price, found.estimated) == (
        7 * 10**9,
        50,
        "openai#0",
        False,
    )
    free = cost(trusting, passed_by("x", ("from a cache", told(cost="0"))))
    assert (free.nanos, free.estimated) == (0, False)
    cut = cost(trusting, passed_by("x", ("answer", told(cost="7")), (" one two three", {})))
    assert (cut.nanos, cut.estimated) == (7 * 10**9 + 3 * 10_000, True)
    so_far = passed_by("x", ("answer", told(cost="7")), (" one two three", {}))
    assert estimate_so_far(trusting, so_far, TokenRatios()) == 7 * 10**9 + 3 * 10_000
    silent = cost(trusting, passed_by("x", (" one two three", {})))
    assert (silent.nanos, silent.input_tokens, silent.output_tokens, silent.estimated) == (
        1000 + 3 * 10_000,
        1,
        3,
        True,
    )


def test_without_a_price_the_told_cost_counts_and_else_0_estimated() -> None:
    found = cost(None, passed_by("x", ("answer", told(cost="0.25", completion_tokens=3))))
    assert (found.nanos, found.price, found.output_tokens, found.input_tokens, found.estimated) == (
        250_000_000,
        None,
        3,
        None,
        False,
    )
    assert cost(None, passed_by("x", ("answer", {}))) == PricedUsage(nanos=0, estimated=True)
    assert cost(None, passed_by("x", ("a", told(cost="0.25")), ("b", {}))).estimated
    assert estimate_so_far(None, passed_by("x", ("answer", {})), TokenRatios()) == 0


def test_the_operator_s_ratio_is_characters_and_nothing_else() -> None:
    price = parse_price(
        {
            "provider": "p",
            "output": "1",
            "input": "1",
            "currency": "USD",
            "characters_per_token": "2.5",
        }
    )
    found = cost(price, passed_by("你好" * 5, ("abcdefghijk", {})))
    assert (found.input_tokens, found.output_tokens) == (4, 5)


def test_what_is_learned_during_a_stream_counts_at_its_end() -> None:
    passed, ratios = PassedBy("one two three four five " * 10), TokenRatios()
    before = estimate_so_far(GPT, passed, ratios)
    for _ in range(20):
        ratios.input.learn(passed.input_counts, 0, 100)
    assert estimate_so_far(GPT, passed, ratios) == pytest.approx(100 * 2500, rel=0.02) != before


def test_what_a_stream_has_cost_by_now_grows_to_its_cost() -> None:
    passed, ratios, before = PassedBy("a prompt"), TokenRatios(), 0
    for piece in ("one ", "two ", "three ", "four ", "five\n"):
        passed.take(piece, {})
        now = estimate_so_far(GPT, passed, ratios)
        assert now >= before
        before = now
    assert (
        before
        == compute_cost(GPT, passed, 0.0, ratios, CostLimits(MOST, MOST, Decimal(1), MOST)).nanos
    )


@given(st.integers(0, 8 * 10**15))
def test_the_cost_of_an_event_reads_back_as_the_same_nanos(nanos: int) -> None:
    event = a_usage_event(cost=PricedUsage(nanos=nanos, estimated=False).cost, request_id="r")
    found = read_usage_cost(usage_bytes(event))
    assert found is not None
    assert found.nanos == nanos
