"""A price's document: what is legal, and where the mistake is (docs/reference/prices.md#document)."""

import pytest

from router.budgets.model.prices import Price, PriceError, parse_price, parse_prices, price_document
from router.budgets.model.prices.price import format_time

MINIMAL = {"provider": "openai", "output": "10", "currency": "USD"}


def test_amounts_are_exact_and_a_cached_input_costs_as_any_other() -> None:
    found = parse_price({**MINIMAL, "model": "gpt-4o", "input": "2.123456789", "per_request": 1})
    assert (found.input, found.cached_input, found.output, found.per_request) == (
        2_123_456_789,
        2_123_456_789,
        10 * 10**9,
        10**9,
    )
    assert (found.valid_from, found.is_told, found.characters_per_token) == (0, False, None)
    assert found.version == 0
    assert parse_price({**MINIMAL, "version": 2**31 - 1}).version == 2**31 - 1


@pytest.mark.parametrize(
    "document",
    [
        MINIMAL,
        {"provider": "own", "input": 0, "currency": "EUR"},
        # at the bounds, with as many digits as are read
        {**MINIMAL, "input": 1_000_000, "characters_per_token": 100},
        {**MINIMAL, "input": "0.1" + 29 * "0", "characters_per_token": "0.1"},
        {**MINIMAL, "valid_from": f"2026-02-28T12:00:00.{19 * '0'}Z"},
        {
            **MINIMAL,
            "model": "a/b:free",
            "input": "0.1",
            "cached_input": "0.05",
            "trust": "told",
            "valid_from": "2026-02-28T12:00:00Z",
        },
        {
            "provider": "whisper",
            "per_second": "0.000000001",
            "currency": "USD",
            "characters_per_token": "3.5",
        },
    ],
)
def test_what_is_written_is_read_again(document: dict[str, object]) -> None:
    price = parse_price(document)
    assert parse_price(price_document(price)) == price


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"input": 2.5}, "input"),
        ({"input": True}, "input"),
        ({"input": "-1"}, "input"),
        ({"input": "nan"}, "input"),
        ({"input": "1000000.1"}, "input"),
        ({"input": "0.0000000001"}, "input"),
        ({"input": "0.1234567890000000000000000001"}, "input"),
        ({"per_second": "1e-30"}, "per_second"),
        ({"provider": "a b"}, "provider"),
        ({"provider": None}, "provider"),
        ({"model": "two words"}, "model"),
        ({"model": ""}, "model"),
        ({"currency": "usd"}, "currency"),
        ({"currency": "USDT"}, "currency"),
        ({"currency": None}, "currency"),
        ({"valid_from": "2026-01-01"}, "valid_from"),
        ({"valid_from": "2026-01-01T00:00:00+02:00"}, "valid_from"),
        ({"valid_from": "2026-01-01T00:00:00.5Z"}, "valid_from"),
        ({"valid_from": "1969-12-31T23:59:59Z"}, "valid_from"),
        ({"valid_from": 7}, "valid_from"),
        ({"trust": "maybe"}, "trust"),
        ({"trust": ["told"]}, "trust"),
        ({"characters_per_token": "0"}, "characters_per_token"),
        ({"characters_per_token": 101}, "characters_per_token"),
        ({"characters_per_token": "0.09"}, "characters_per_token"),
        ({"inputs": "1"}, "inputs"),
        ({"input": "0.1" + 30 * "0"}, "input"),
        ({"valid_from": f"2026-02-28T12:00:00.{20 * '0'}Z"}, "valid_from"),
        ({"version": -1}, "version"),
        ({"version": 2**31}, "version"),
        ({"version": True}, "version"),
    ],
)
def test_a_mistake_is_named_with_its_place(wrong: dict[str, object], place: str) -> None:
    with pytest.raises(PriceError, match=rf"^{place}: "):
        parse_price({**MINIMAL, **wrong})
    with pytest.raises(PriceError, match=rf"^\[1\]\.{place}: "):
        parse_prices([MINIMAL, {**MINIMAL, "model": "other", **wrong}])


def test_a_price_without_an_amount_is_none() -> None:
    with pytest.raises(PriceError, match="at least one of input"):
        parse_price({"provider": "openai", "currency": "USD"})


@pytest.mark.parametrize("document", [[], {"prices": []}, "free", [7], {"prices": {}}])
def test_a_file_without_prices_is_refused(document: object) -> None:
    with pytest.raises(PriceError):
        parse_prices(document)


def test_a_file_names_each_time_of_a_model_once() -> None:
    later = {**MINIMAL, "valid_from": "2027-01-01T00:00:00Z"}
    assert [one.valid_from for one in parse_prices({"prices": [MINIMAL, later]})] == [
        0,
        1_798_761_600,
    ]
    with pytest.raises(PriceError, match=r"^\[2\]: .* as \[0\]"):
        parse_prices([MINIMAL, later, {**MINIMAL, "output": "11"}])


def test_the_longest_name_of_a_price_fits_into_an_event() -> None:
    price = Price(provider_id="p" * 64, model="m" * 128, currency="USD", version=2**31 - 1)
    assert len(price.label) <= 256
    assert Price(provider_id="openai", currency="USD", version=2).label == "openai#2"
    assert format_time(1_798_761_600) == "2027-01-01T00:00:00Z"
