"""The bucket of prices: each is checked and versioned before it is written, and each process keeps
its table equal to the bucket.

    key: provider, model     {prices: [{input, output, ..., valid_from, version}, ...]}

The command line writes (`AuditedPrices`), a router reads (`FollowedPrices`). A document has the prices of
one provider and model for all times, the earliest first: a price of next month stands beside the
one of today. Each keeps the version of the document with which it was written; the newest has none
of its own in the document, it is the record's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from router.budgets.model.prices import (
    Price,
    PriceError,
    PriceList,
    PriceTable,
    parse_price,
    price_document,
)
from router.budgets.model.prices.price import format_time, name_price
from router.contracts.version_record import VersionRecord, read_record
from router.core import ids
from router.core.errors import Poison, RouterError
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.followed_bucket import FollowedBucket
from router.delivery.kv.versioned_store import MAX_AUTHOR, VersionedStore
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.operate.audit import AuditedStore, OperatorWrite
from router.operate.audit.audit_event import Values
from router.process.observability import events

MAX_PRICE_BYTES = 64 * 1024
MAX_TIMES = 64  # prices of one provider and model
MAX_MODELS = 1024  # documents in the bucket


class PriceNotFound(RouterError):
    """There is no such price."""

    code = "price_not_found"


class StoredPrices(Struct, frozen=True):
    """The prices of one provider and model in the bucket."""

    list: PriceList
    record: VersionRecord


class WrittenPrice(Struct, frozen=True):
    """A price as it stands in the bucket.

    `is_new` is False when the same one was there already: then nothing was written.
    """

    price: Price
    is_new: bool


class PriceStore(VersionedStore[StoredPrices]):
    """A write may raise PriceError before it writes.

    The name of a document: the provider, and the model where it is for one.
    """

    kind, not_found = "price", PriceNotFound

    def read(self, entry: BucketEntry) -> StoredPrices:
        return read_stored_prices(entry)

    async def put(self, price: Price, *, author: str) -> WrittenPrice:
        """Write the price in place of the one of the same time, or beside those of other times."""
        name = list_name(price)
        present = await self.find(*name)
        if present is None and len(await self.list()) >= MAX_MODELS:
            raise PriceError(f"there are prices of {MAX_MODELS} models already: delete one first")
        others = (
            [listed for listed in present.list.prices if listed.valid_from != price.valid_from]
            if present is not None
            else []
        )
        same = (
            next(
                (listed for listed in present.list.prices if listed.valid_from == price.valid_from),
                None,
            )
            if present is not None
            else None
        )
        if same is not None and replace(price, version=same.version) == same:
            return WrittenPrice(same, False)
        kept = _make_room(
            sorted([*others, replace(price, version=0)], key=lambda listed: listed.valid_from)
        )
        replaces = present.record.version if present is not None else 0
        version = await self.write(
            name, _write_document(kept), author=author[:MAX_AUTHOR], replaces=replaces
        )
        return WrittenPrice(replace(price, version=version), True)

    async def remove(self, provider_id: str, model: str | None, valid_from: int) -> int:
        """Take out the price of one time, and return the new version; the last one goes by
        `delete`.

        Raises PriceNotFound, PriceError.
        """
        name = (provider_id,) if model is None else (provider_id, model)
        present = await self.get(*name)
        kept = [price for price in present.list.prices if price.valid_from != valid_from]
        if len(kept) == len(present.list.prices):
            raise PriceNotFound(
                f"{name_price(provider_id, model)} has no price that is valid from "
                f"{format_time(valid_from)}"
            )
        if not kept:
            raise PriceError(
                "it is the only price of this provider and model: delete it without --valid-from"
            )
        return await self.write(
            name,
            _write_document(kept),
            author=present.record.author,
            replaces=present.record.version,
        )


class AuditedPrices(AuditedStore[PriceStore, StoredPrices]):
    """The writes of operators. A price is every tenant's."""

    deletion = "price delete"
    has_tenant = False

    def describe(self, document: StoredPrices) -> Values:
        return {"version": document.record.version}

    async def put(self, price: Price, *, author: str) -> WrittenPrice:
        event = await self._open("price put", list_name(price), price.valid_from)
        written = await self.store.put(price, author=author)
        if written.is_new:
            event.after = describe_price(price, written.price.version)
            await self.trail.record(event)
        return written

    async def remove(self, provider_id: str, model: str | None, valid_from: int) -> int:
        """Take out the price of one time, and return the new version."""
        name = (provider_id,) if model is None else (provider_id, model)
        event = await self._open(self.deletion, name, valid_from)
        version = await self.store.remove(provider_id, model, valid_from)
        event.after = {"version": version}
        await self.trail.record(event)
        return version

    async def _open(self, command: str, name: tuple[str, ...], valid_from: int) -> OperatorWrite:
        """With the price of this time, if there is one."""
        event, before = self.make_event(command, name), await self.store.find(*name)
        if before is not None:
            prices = (price for price in before.list.prices if price.valid_from == valid_from)
            event.before = describe_price(next(prices, None), before.record.version)
        return event


def describe_price(price: Price | None, version: int) -> Values:
    """A version, and a price of it, in an audit event."""
    return {"version": version, **(price_document(price) if price is not None else {})}


def list_name(price: Price) -> tuple[str, ...]:
    return (price.provider_id,) if price.model is None else (price.provider_id, price.model)


def list_documents(prices: PriceList) -> list[dict[str, object]]:
    """Every price with its version."""
    return [{**price_document(price), "version": price.version} for price in prices.prices]


def read_stored_prices(entry: BucketEntry) -> StoredPrices:
    """Raises Poison or PriceError for a value or a key that is no document of prices."""
    name = ids.parts_of(entry.key)
    if name is None or len(name) not in (1, 2) or len(entry.value) > MAX_PRICE_BYTES:
        raise Poison("is no price of a provider")
    record = read_record(entry.value)
    documents = record.document.get("prices")
    if not isinstance(documents, list) or not 0 < len(documents) <= MAX_TIMES:
        raise PriceError(f"prices: should be 1..{MAX_TIMES} prices")
    prices = [parse_price(document, f"prices[{place}]") for place, document in enumerate(documents)]
    times = [price.valid_from for price in prices]
    if any(list_name(price) != name for price in prices) or times != sorted(set(times)):
        raise PriceError(
            "prices: should be of the key's provider and model, each of another time, the "
            "earliest first"
        )
    return StoredPrices(
        PriceList(
            tuple(replace(price, version=price.version or record.version) for price in prices)
        ),
        record,
    )


def _write_document(prices: Sequence[Price]) -> dict[str, object]:
    return {
        "prices": [
            {**price_document(price), **({"version": price.version} if price.version else {})}
            for price in prices
        ]
    }


def _make_room(prices: list[Price]) -> list[Price]:
    """Leave the earliest out once a later one is in force; the history has it."""
    if len(prices) > MAX_TIMES and prices[1].valid_from <= time.time():
        return prices[1:]
    if len(prices) > MAX_TIMES:
        raise PriceError(
            f"there are {MAX_TIMES} prices of this provider and model already: delete one first"
        )
    return prices


# -- Keeps the prices of this process equal to their bucket.


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
        price_list = read_stored_prices(entry).list
        check_currency(price_list, self._currency)
        return price_list

    def install(self, values: Sequence[PriceList]) -> None:
        self._table.replace(values)


def check_currency(prices: PriceList, currency: str) -> None:
    """Raises PriceError."""
    other = next((price.currency for price in prices.prices if price.currency != currency), None)
    if other is not None:
        raise PriceError(
            f"currency: is {other}, and costs are in {currency} (the setting usage.currency)"
        )
