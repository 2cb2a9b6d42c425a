"""One attempt from its beginning to its cost, with the prices and ratios of a process."""

from collections.abc import Mapping
from typing import Any

import pytest

from router.budgets.model.prices import Price, PriceList, PriceTable, Pricing, parse_price
from router.budgets.model.prices.pricing import OPTIONS, list_prompts
from router.contracts.provider_request import ProviderRequest

ANSWER = "The river rises in the hills above the village. " * 10


def a_price(**fields: Any) -> Price:
    return parse_price(
        {"provider": "openai", "currency": "USD", "input": "1", "output": "1", **fields}
    )


def a_pricing(*prices: Price, max_cost: float = 1e9) -> Pricing:
    table = PriceTable()
    table.replace(PriceList((price,)) for price in prices)
    return Pricing(table, max_cost=max_cost, unpriced=max_cost, factor=1.0, floor=max_cost)


def a_request(tenant: str = "acme", body: str | bytes = "hello", **fields: Any) -> ProviderRequest:
    return ProviderRequest(
        provider_id="openai", tenant_id=tenant, request_id="r", trace_id="t", body=body, **fields
    )


def teach(pricing: Pricing, tenant: str, tokens: int, times: int = 20) -> None:
    for _ in range(times):
        attempt = pricing.open(a_request(tenant), at=0.0)
        attempt.take(ANSWER, {"completion_tokens": str(tokens), "prompt_tokens": "2"})
        attempt.conclude(0.1, is_complete=True)


def cut(pricing: Pricing, tenant: str) -> int | None:
    attempt = pricing.open(a_request(tenant), at=0.0)
    attempt.take(ANSWER, {})
    return attempt.conclude(0.1, is_complete=False).output_tokens


# a token a word: below half of what is documented
ODD = "internationalization responsibility " * 20


def cut_long(pricing: Pricing, *, told: str | None = None) -> int:
    """A cut stream of many times the text: its prompt and its answer are estimated; in nanos."""
    attempt = pricing.open(a_request("hostile", ANSWER * 50), at=0.0)
    attempt.take(ANSWER * 50, {} if told is None else {"cost": told})
    return attempt.conclude(0.1, is_complete=False).nanos


def teach_odd(pricing: Pricing, *, text: str = ODD, times: int = 40, **usage: str) -> int:
    """Whole answers in which the provider tells a token a word; what they cost together, in nanos."""
    told = {"prompt_tokens": str(len(text.split())), "completion_tokens": str(len(text.split()))}
    paid = 0
    for _ in range(times):
        attempt = pricing.open(a_request("hostile", text), at=0.0)
        attempt.take(text, {**told, **usage})
        paid += attempt.conclude(0.1, is_complete=True).nanos
    return paid


def test_a_few_odd_answers_make_no_cut_stream_cheaper() -> None:
    before, pricing = cut_long(a_pricing(a_price())), a_pricing(a_price())
    teach_odd(pricing)
    assert cut_long(pricing) == before


def test_a_tenant_pays_for_odd_texts_at_least_what_they_save() -> None:
    """However many it pays for first, and however many streams it cuts then."""
    before = cut_long(a_pricing(a_price()))
    for times in (60, 300, 1000):
        pricing, streams = a_pricing(a_price()), 40
        paid = teach_odd(pricing, text=ODD * 10, times=times)
        saved = sum(before - cut_long(pricing) for _ in range(streams))
        assert 0 <= saved <= paid


@pytest.mark.parametrize("usage", [{"cached_tokens": "40"}, {"cost": "0"}])
def test_odd_texts_that_were_not_paid_for_save_nothing(usage: Mapping[str, str]) -> None:
    """Cached tokens are cheap, and a cost that the price believes is not of the tokens."""
    price = a_price(trust="told") if "cost" in usage else a_price(cached_input="0", output="0")
    pricing = a_pricing(price)
    before = cut_long(a_pricing(price))
    teach_odd(pricing, text=ODD, times=1000, **usage)
    assert cut_long(pricing) == before


def test_prompts_alone_save_no_more_than_was_paid_for_odd_texts() -> None:
    """However many streams are cut before their answer: each one's saving is taken off."""

    def cut_prompt(pricing: Pricing) -> int:
        attempt = pricing.open(a_request("hostile", ANSWER * 50), at=0.0)
        attempt.take("x", {})
        return attempt.conclude(0.1, is_complete=False).nanos

    before, pricing = cut_prompt(a_pricing(a_price())), a_pricing(a_price())
    paid = teach_odd(pricing, text=ODD * 10, times=60)
    saved = [before - cut_prompt(pricing) for _ in range(100)]
    assert saved[0] > 0
    assert saved[-1] == 0
    assert sum(saved) <= paid


def test_the_told_model_chooses_the_price_and_the_registry_s_until_then() -> None:
    pricing = a_pricing(
        a_price(output="3"), a_price(model="mini", output="1"), a_price(model="large", output="2")
    )
    attempt = pricing.open(a_request(), at=0.0, model="mini")
    attempt.take("one", {})
    assert attempt.estimate_so_far() == 1000 + 1000
    attempt.take("", {"model": "large"})
    assert attempt.estimate_so_far() == 1000 + 2000
    usage = attempt.conclude(0.0, is_complete=False)
    assert (usage.model, usage.price, usage.nanos) == ("large", "openai/large#0", 3000)


def test_the_registry_s_model_stands_in_the_event_where_none_is_told() -> None:
    pricing = a_pricing(a_price(model="mini"))
    assert (
        pricing.open(a_request(), at=0.0, model="mini").conclude(0.0, is_complete=False).model
        == "mini"
    )
    assert (
        pricing.open(a_request(), at=0.0, model="no model\n").conclude(0.0, is_complete=False).model
        is None
    )


def test_an_attempt_keeps_the_price_of_its_beginning() -> None:
    pricing = a_pricing(a_price(input="1"))
    table = pricing.table
    attempt = pricing.open(a_request(), at=100.0)
    before = attempt.estimate_so_far()
    table.replace(
        [PriceList((a_price(input="1"), a_price(input="9", valid_from="1970-01-01T00:01:41Z")))]
    )
    attempt.take("", {"model": "told-later"})
    assert attempt.estimate_so_far() == before
    assert pricing.open(a_request(), at=101.0).estimate_so_far() == 9 * before


def test_an_attempt_whose_end_is_not_known_costs_its_prompt() -> None:
    usage = (
        a_pricing(a_price())
        .open(a_request(body="hello " * 100), at=0.0)
        .conclude(5.0, is_complete=False)
    )
    assert (usage.estimated, usage.output_tokens) == (True, 0)
    assert usage.nanos == (usage.input_tokens or 0) * 1000 > 0


def test_what_one_tenant_teaches_bills_no_other_tenant() -> None:
    pricing = a_pricing(a_price())
    before = cut(pricing, "acme")
    teach(pricing, "evil", 10_000)
    assert cut(pricing, "acme") == before
    teach(pricing, "acme", 200)
    assert cut(pricing, "acme") == 200


def test_only_a_whole_answer_with_told_tokens_teaches() -> None:
    pricing = a_pricing(a_price())
    for is_complete, metadata in (
        (False, {"completion_tokens": "500"}),
        (True, {}),
        (True, {"completion_tokens": "0"}),
    ):
        for _ in range(20):
            attempt = pricing.open(a_request(), at=0.0)
            attempt.take(ANSWER, metadata)
            attempt.conclude(0.1, is_complete=is_complete)
    assert len(pricing.ratios) == 0
    for _ in range(20):
        attempt = pricing.open(a_request(), at=0.0)
        attempt.take("one", {"completion_tokens": "500"})
        attempt.take(ANSWER, {})
        attempt.conclude(0.1, is_complete=True)
    assert pricing.ratios.find("acme", "openai", None).output.known.samples == 0


def test_without_a_price_nothing_is_learned() -> None:
    pricing = a_pricing()
    teach(pricing, "acme", 200)
    assert len(pricing.ratios) == 0


def test_no_attempt_costs_more_than_the_bound() -> None:
    attempt = a_pricing(a_price(), max_cost=0.5).open(a_request(), at=0.0)
    attempt.take(ANSWER, {"prompt_tokens": "999999999", "completion_tokens": "1"})
    assert attempt.conclude(0.1, is_complete=True).cost == 0.5


def test_a_long_text_costs_the_same_wherever_it_stands() -> None:
    text = "Please summarise this contract. " * 50
    pricing = a_pricing(a_price(output="0"))

    def cost(body: str, parameters: Mapping[str, object], metadata: Mapping[str, object]) -> int:
        return pricing.open(
            a_request(body=body, parameters=parameters, metadata=metadata), at=0.0
        ).estimate_so_far()

    whole = cost(text, {}, {})
    for hidden in (
        cost("", {"system": text}, {}),
        cost("", {"messages": [{"content": text}]}, {}),
        cost("", {}, {"history": [text]}),
    ):
        assert whole <= hidden <= whole * 1.02


def test_options_are_no_part_of_the_prompt() -> None:
    assert list_prompts(
        a_request(parameters={"model": "gpt-4o", "temperature": 0.1}, metadata={"user": "u-1"})
    ) == ["hello"]
    # each text with the sign that separates it from the next one
    assert list_prompts(a_request(parameters={"stop": ["x"] * (OPTIONS // 2)})) == ["hello"]
    assert len(list_prompts(a_request(parameters={"stop": ["xx", *["x"] * 255]}))) > 1


def test_a_prompt_costs_as_much_as_names_or_as_numbers_beside_the_prompt() -> None:
    plain = list_prompts(a_request())
    assert len(list_prompts(a_request(parameters={"word " * 1_000: 1}))) > len(plain)
    assert len(list_prompts(a_request(metadata={"ids": list(range(1_000, 2_000))}))) > len(plain)
    assert (
        list_prompts(a_request(parameters={"temperature": 0.7, "stream": True, "max_tokens": 100}))
        == plain
    )


def test_a_name_is_a_part_of_the_prompt_from_65_characters_on() -> None:
    plain = list_prompts(a_request())
    names = {f"{number:02}{'n' * 62}": 1 for number in range(20)}
    assert list_prompts(a_request(parameters=names)) == plain
    assert len(list_prompts(a_request(parameters={f"{name}n": 1 for name in names}))) > len(plain)
