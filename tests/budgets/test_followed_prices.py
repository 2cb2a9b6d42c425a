"""Prices in their bucket: written one version after the other, followed by a process
(docs/reference/prices.md#versions).
"""

import json
from typing import Any

import pytest

from router.budgets.model.prices import Price, PriceError, PriceTable, parse_price
from router.budgets.prices import store as price_store
from router.budgets.prices.store import FollowedPrices, PriceNotFound, PriceStore
from router.contracts.stored_record import record_bytes
from router.contracts.version_record import make_record
from router.core.errors import Conflict
from router.core.ids import key
from router.delivery.wire.shared_info import SharedInfo
from tests.support.buckets import Bucket

LATER, MUCH_LATER = "2090-01-01T00:00:00Z", "2091-01-01T00:00:00Z"
AT_LATER = 3_786_912_000


def a_price(**fields: Any) -> Price:
    return parse_price(
        {"provider": "openai", "model": "gpt-4o", "currency": "USD", "output": "10", **fields}
    )


def follow(bucket: Bucket, currency: str = "USD") -> tuple[FollowedPrices, PriceTable]:
    table = PriceTable()
    return FollowedPrices(
        bucket.jetstream, bucket.name, table, currency, SharedInfo(bucket.jetstream)
    ), table


async def test_a_price_of_next_year_stands_beside_the_one_of_today(bucket: Bucket) -> None:
    store = PriceStore(bucket.documents)
    for price in (a_price(), a_price(output="8", valid_from=LATER), a_price(output="20")):
        await store.put(price, author="ann")
    followed, table = follow(bucket)
    await followed.load()
    found = [table.find("openai", "gpt-4o", at) for at in (0, AT_LATER - 1, AT_LATER)]
    assert [one.label if one else None for one in found] == [
        "openai/gpt-4o#3",
        "openai/gpt-4o#3",
        "openai/gpt-4o#2",
    ]
    then = await store.get("openai", "gpt-4o", version=1)
    assert [(one.output, one.label) for one in then.list.prices] == [
        (10 * 10**9, "openai/gpt-4o#1")
    ]


async def test_the_same_price_is_not_written_again(bucket: Bucket) -> None:
    store = PriceStore(bucket.documents)
    first, again = [await store.put(a_price(), author="ann") for _ in range(2)]
    assert (first.is_new, again.is_new, again.price.label) == (True, False, "openai/gpt-4o#1")
    await store.put(a_price(output="8", valid_from=LATER), author="ann")
    assert not (await store.put(a_price(), author="bob")).is_new


async def test_versions_go_on_after_a_deletion(bucket: Bucket) -> None:
    store = PriceStore(bucket.documents)
    await store.put(a_price(), author="ann")
    await store.delete("openai", "gpt-4o")
    assert (await store.put(a_price(), author="ann")).price.label == "openai/gpt-4o#2"


async def test_the_price_of_one_time_is_taken_out_and_the_others_keep_their_versions(
    bucket: Bucket,
) -> None:
    store = PriceStore(bucket.documents)
    await store.put(a_price(), author="ann")
    await store.put(a_price(output="8", valid_from=LATER), author="ann")
    assert await store.remove("openai", "gpt-4o", AT_LATER) == 3
    assert [one.label for one in (await store.get("openai", "gpt-4o")).list.prices] == [
        "openai/gpt-4o#1"
    ]
    with pytest.raises(PriceNotFound):
        await store.remove("openai", "gpt-4o", AT_LATER)
    with pytest.raises(PriceError):
        await store.remove("openai", "gpt-4o", 0)


async def test_the_earliest_leaves_once_a_later_one_is_in_force(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(price_store, "MAX_TIMES", 2)
    store = PriceStore(bucket.documents)
    for valid_from in (None, "2020-01-01T00:00:00Z", LATER):
        await store.put(a_price(valid_from=valid_from), author="ann")
    assert [one.version for one in (await store.get("openai", "gpt-4o")).list.prices] == [2, 3]
    with pytest.raises(PriceError, match="2 prices"):
        await store.put(a_price(valid_from=MUCH_LATER), author="ann")


async def test_the_bucket_has_a_bound(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_store, "MAX_MODELS", 1)
    store = PriceStore(bucket.documents)
    await store.put(a_price(), author="ann")
    await store.put(a_price(output="8"), author="ann")
    with pytest.raises(PriceError, match="1 models"):
        await store.put(a_price(model=None), author="ann")


async def test_a_write_that_has_not_seen_another_s_is_refused(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PriceStore(bucket.documents)
    await store.put(a_price(), author="ann")
    seen = await store.get("openai", "gpt-4o")
    await store.put(a_price(output="8"), author="bob")

    async def find(*_: str) -> object:
        return seen

    monkeypatch.setattr(store, "find", find)
    with pytest.raises(Conflict):
        await store.put(a_price(output="9"), author="ann")


def write(document: object, version: int = 1) -> bytes:
    return record_bytes(make_record({"prices": document}, version=version, author="ann"))


MINE = {"provider": "openai", "model": "gpt-4o", "currency": "USD", "output": "10"}


@pytest.mark.parametrize(
    "value",
    [
        b"{}",
        b"garbage",
        write([]),
        write(7),
        write([{**MINE, "output": "free"}]),
        write([{**MINE, "model": "other"}]),
        write([{**MINE, "currency": "EUR"}]),
        write([MINE, MINE]),
        write([{**MINE, "valid_from": LATER}, MINE]),
        write(
            [
                {**MINE, "valid_from": f"2000-01-01T00:{minute:02}:{second:02}Z"}
                for minute in range(2)
                for second in range(60)
            ]
        ),
    ],
)
async def test_a_document_that_is_none_leaves_the_last_good_one_in_force(
    bucket: Bucket, value: bytes
) -> None:
    at = key("openai", "gpt-4o")
    await bucket.write(at, write([MINE]))
    await bucket.write(at, value)
    followed, table = follow(bucket)
    await followed.load()
    price = table.find("openai", "gpt-4o", 0)
    assert price is not None
    assert price.output == 10 * 10**9
    assert "gpt-4o: " in followed.check.detail
    assert json.dumps(followed.check.detail)


async def test_prices_of_another_currency_than_costs_are_not_in_force(bucket: Bucket) -> None:
    await PriceStore(bucket.documents).put(a_price(), author="ann")
    followed, table = follow(bucket, "EUR")
    await followed.load()
    assert table.find("openai", "gpt-4o", 0) is None
    assert "costs are in EUR" in followed.check.detail
