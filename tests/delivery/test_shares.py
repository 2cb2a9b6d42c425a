"""Whose messages fill a stream: nothing is counted below the half; above it a tenant over its share
is known.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from router.delivery.consume import shares
from router.delivery.consume.shares import TenantShares
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import StreamSpec, Topology, create
from tests.support.delivery import connected


class House:
    def __init__(self, jetstream: JetStream, name: str) -> None:
        self.jetstream, self.stream, self.subject = jetstream, f"{name}_S", f"{name}.s"
        self.now = 0.0
        self.shares = TenantShares(jetstream, self.stream, 0.25, lambda: self.now)

    async def store(self, tenant: str, count: int) -> None:
        for _ in range(count):
            await self.jetstream.publish(self.subject, b"x" * 900, {"tenant_id": tenant})

    async def look(self, times: int = 1, pause: float = 0.0) -> None:
        for _ in range(times):
            self.now += pause
            await self.shares.look()

    def list_over(self, *tenants: str) -> list[str]:
        return [tenant for tenant in tenants if self.shares.is_over(tenant)]


@pytest.fixture
async def house(nats_url: str, prefix: str) -> AsyncIterator[House]:
    async with connected(nats_url) as connection:
        house = House(JetStream(connection), prefix)
        spec = StreamSpec(
            name=house.stream, subjects=(house.subject,), max_bytes=100_000, discard="new"
        )
        assert await create(house.jetstream, Topology((spec,))) == []
        yield house


async def test_below_the_half_a_tenant_borrows_what_is_free(house: House) -> None:
    await house.store("acme", 45)
    assert not house.shares.is_nearly_full
    await house.shares.look()
    house.shares.add("acme", 90_000)
    assert not house.shares.is_over("acme")


async def test_above_the_half_who_holds_more_than_a_quarter_is_over(house: House) -> None:
    await house.store("acme", 40)
    await house.store("tenx", 20)
    await house.shares.look()
    assert [house.shares.is_over(tenant) for tenant in ("acme", "tenx", "new")] == [
        True,
        False,
        False,
    ]
    assert not house.shares.is_nearly_full


async def test_what_stands_there_is_counted_before_the_half_so_that_shares_apply_at_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "MAX_READ", 10)
    monkeypatch.setattr(shares, "READ_BATCH", 10)
    await house.store("tenx", 12)
    await house.store("acme", 34)
    await house.look(times=6)
    assert house.list_over("acme") == []
    await house.store("tenx", 7)
    await house.look()
    assert house.list_over("acme", "tenx") == ["acme"]


async def test_what_is_stored_between_two_looks_counts_at_once_and_only_once(house: House) -> None:
    await house.store("acme", 40)
    await house.store("tenx", 20)
    await house.shares.look()
    for _ in range(6):
        house.shares.add("tenx", 900)
    assert house.shares.is_over("tenx")
    await house.shares.look()
    assert not house.shares.is_over("tenx")


async def test_what_left_the_stream_is_forgotten_within_a_minute(house: House) -> None:
    await house.store("acme", 30)
    await house.store("tenx", 30)
    await house.shares.look()
    await house.jetstream.ask(f"STREAM.PURGE.{house.stream}", {"seq": 20})
    await house.store("other", 20)
    house.now = 61.0
    await house.shares.look()
    assert [house.shares.is_over(tenant) for tenant in ("acme", "tenx")] == [False, True]


async def test_at_nine_tenths_the_rest_is_for_the_others(house: House) -> None:
    await house.store("acme", 92)
    await house.shares.look()
    assert house.shares.is_nearly_full
    whole = TenantShares(house.jetstream, house.stream, 1.0)
    await whole.look()
    assert not whole.is_nearly_full, "where one tenant may hold all, nothing is kept for others"
    await house.jetstream.ask(f"STREAM.PURGE.{house.stream}")
    await house.shares.look()
    assert not house.shares.is_nearly_full
    assert not house.shares.is_over("acme")


async def test_while_all_are_counted_anew_the_last_count_holds(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a stream of more messages than one run reads would be open to every tenant for most of
    each minute.
    """
    monkeypatch.setattr(shares, "MAX_READ", 20)
    await house.store("tenx", 20)
    await house.store("acme", 40)
    await house.look(3)
    assert house.list_over("acme", "tenx") == ["acme"]
    await house.look(pause=61.0)
    assert house.list_over("acme", "tenx") == ["acme"]
    await house.look(5)
    assert house.list_over("acme", "tenx") == ["acme"], "none was counted twice"


async def test_no_moment_of_a_count_is_without_a_figure(house: House) -> None:
    await house.store("acme", 60)
    await house.look()
    looking = asyncio.create_task(house.look(pause=61.0))
    while not looking.done():
        assert house.shares.is_over("acme")
        await asyncio.sleep(0)
    await looking


async def test_a_count_that_takes_longer_than_a_minute_ends_before_the_next_begins(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "MAX_READ", 20)
    await house.store("acme", 30)
    await house.store("tenx", 30)
    await house.look(3, pause=61.0)
    await house.jetstream.ask(f"STREAM.PURGE.{house.stream}", {"seq": 21})
    await house.store("other", 20)
    await house.look(6, pause=61.0)
    assert house.list_over("acme", "tenx") == ["tenx"]


async def test_what_others_store_counts_in_the_next_run_also_while_all_are_counted_anew(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "MAX_READ", 20)
    await house.store("acme", 40)
    await house.store("tenx", 20)
    await house.look(3)
    await house.store("tenx", 6)
    await house.look(pause=61.0)
    assert house.list_over("acme", "tenx") == ["acme", "tenx"]


async def test_what_is_stored_while_a_count_is_under_way_counts_until_it_is_read(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "MAX_READ", 20)
    await house.store("acme", 60)
    await house.look()
    for _ in range(22):
        house.shares.add("tenx", 900)
    await house.look()
    assert house.list_over("tenx") == ["tenx"], "the end was not reached"
    await house.look()
    assert house.list_over("tenx") == []


async def test_what_is_stored_during_a_run_counts_until_the_next(house: House) -> None:
    await house.store("acme", 60)
    await house.look()
    looking = asyncio.create_task(house.look())
    await asyncio.sleep(0)
    for _ in range(22):
        house.shares.add("tenx", 900)
    await looking
    assert house.list_over("tenx") == ["tenx"]
    await house.look()
    assert house.list_over("tenx") == []


async def test_what_is_stored_during_the_first_count_counts(house: House) -> None:
    await house.store("acme", 60)
    looking = asyncio.create_task(house.look())
    while not looking.done():
        house.shares.add("tenx", 30_000)
        await asyncio.sleep(0)
    assert house.list_over("tenx") == ["tenx"]


async def test_of_very_many_tenants_the_largest_are_kept(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "MAX_TENANTS", 10)
    for number in range(30):
        await house.store(f"small{number}", 1)
    await house.store("acme", 30)
    for pause in (0.0, 61.0):
        await house.look(pause=pause)
        assert house.list_over("acme", "small0") == ["acme"]
        assert len(house.shares._counted.sizes) == 1
