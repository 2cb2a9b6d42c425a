"""Keeps the prices of this process equal to their bucket."""

from __future__ import annotations

from collections.abc import Sequence

from router.budgets.model.prices import PriceError, PriceList, PriceTable
from router.budgets.prices.store import read_stored_prices
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.followed_bucket import FollowedBucket
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.process.observability import events


class FollowedPrices(FollowedBucket[PriceList]):
    """A document that cannot be read leaves the last good one in force.

    `currency`: of every cost, so that sums are of one.
    """

    optional = "prices"

    def __init__(
        self, jetstream: JetStream, bucket: str, table: PriceTable, currency: str, infos: SharedInfo
    ) -> None:
        super().__init__(jetstream, bucket, events.PRICE_BROKEN, infos)
        self._table = table
        self._currency = currency

    def read(self, entry: BucketEntry) -> PriceList:
        found = read_stored_prices(entry).list
        check_currency(found, self._currency)
        return found

    def install(self, values: Sequence[PriceList]) -> None:
        self._table.replace(values)


def check_currency(prices: PriceList, currency: str) -> None:
    """Raises PriceError."""
    other = next((one.currency for one in prices.prices if one.currency != currency), None)
    if other is not None:
        raise PriceError(
            f"currency: is {other}, and costs are in {currency} (the setting usage.currency)"
        )
