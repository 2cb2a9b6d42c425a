"""Which price is in force (docs/reference/prices.md#find)."""

from router.budgets.model.prices import Price, PriceList, PriceTable


def a_price(
    model: str | None = None, valid_from: int = 0, version: int = 1, **amounts: int
) -> Price:
    return Price(
        provider_id="openai",
        model=model,
        currency="USD",
        valid_from=valid_from,
        version=version,
        **amounts,
    )


def a_table(*lists: tuple[Price, ...]) -> PriceTable:
    table = PriceTable()
    table.replace(PriceList(prices) for prices in lists)
    return table


def test_the_newest_that_is_not_later_is_in_force() -> None:
    table = a_table((a_price("m", 100, 1), a_price("m", 200, 2)))
    assert [
        getattr(table.find("openai", "m", at), "version", None) for at in (99.9, 100, 199.9, 200)
    ] == [None, 1, 1, 2]


def test_the_model_goes_before_the_provider_and_that_before_the_dearest() -> None:
    wide, own = a_price(output=2), a_price("m", output=1)
    assert a_table((wide,), (own,)).find("openai", "m", 0) is own
    assert a_table((wide,), (own,)).find("openai", "other", 0) is wide
    assert a_table((wide,), (own,)).find("openai", None, 0) is wide


def test_no_name_of_a_model_makes_an_attempt_free() -> None:
    cheap, dear = a_price("mini", output=1, input=9), a_price("large", output=5)
    for model in ("unheard", None):
        assert a_table((cheap,), (dear,)).find("openai", model, 0) is dear


def test_a_price_of_the_model_that_begins_later_leaves_the_provider_s() -> None:
    wide = a_price()
    assert a_table((wide,), (a_price("m", 100),)).find("openai", "m", 50) is wide


def test_a_provider_without_prices_has_none() -> None:
    assert PriceTable().find("openai", "m", 0) is None
    assert a_table((a_price("m"),)).find("other", "m", 0) is None
    assert a_table((a_price("m", 100),)).find("openai", "m", 50) is None
