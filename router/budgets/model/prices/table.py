"""The prices in force in this instance, by provider and model.

Pure: a mirror of the bucket fills it.
"""

from __future__ import annotations

from collections.abc import Iterable

from router.budgets.model.prices.price import Price, PriceList

ByModel = dict[str | None, PriceList]


class PriceTable:
    """Empty until it is filled: then no provider has a price."""

    def __init__(self) -> None:
        self._providers: dict[str, ByModel] = {}

    def replace(self, lists: Iterable[PriceList]) -> None:
        """All prices."""
        providers: dict[str, ByModel] = {}
        for one in lists:
            provider_id, model = one.name
            providers.setdefault(provider_id, {})[model] = one
        self._providers = providers

    def find(self, provider_id: str, model: str | None, at: float) -> Price | None:
        """The price of the model, else the provider's, else the provider's dearest.

        So no name of a model makes an attempt free. Of each the newest that is valid at this time.
        `at`: seconds since the epoch.
        """
        models = self._providers.get(provider_id)
        if models is None:
            return None
        for one in (models.get(model), models.get(None)):
            price = one.find(at) if one is not None else None
            if price is not None:
                return price
        return max(
            (price for one in models.values() if (price := one.find(at)) is not None),
            key=_order,
            default=None,
        )


def _order(price: Price) -> tuple[int, ...]:
    """The dearest is the last."""
    return price.output, price.input, price.per_request, price.per_second
