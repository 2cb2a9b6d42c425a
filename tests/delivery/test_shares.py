"""Whose messages fill a stream: nothing is counted below the half; above it a tenant over its share is known."""

from collections.abc import AsyncIterator

import pytest

from router.delivery.api import JetStream
from router.delivery.shares import ShareRules, TenantShares
from router.delivery.topology import StreamSpec, Topology, create
from tests.support.delivery import connected


class House:
    def __init__(self, jetstream: JetStream, name: str) -> None:
        self.jetstream, self.stream, self.subject = jetstream, f"{name}_S", f"{name}.s"
        self.now = 0.0
        self.shares = TenantShares(jetstream, ShareRules(stream=self.stream, share=0.25), lambda: self.now)

    async def store(self, tenant: str, count: int) -> None:
        for _ in range(count):
            await self.jetstream.publish(self.subject, b"x" * 900, {"tenant_id": tenant})


@pytest.fixture
async def house(nats_url: str, prefix: str) -> AsyncIterator[House]:
    async with connected(nats_url) as connection:
        house = House(JetStream(connection), prefix)
        spec = StreamSpec(name=house.stream, subjects=(house.subject,), max_bytes=100_000, discard="new")
        assert await create(house.jetstream, Topology((spec,))) == []
        yield house


async def test_below_the_half_a_tenant_borrows_what_is_free(house: House) -> None:
    await house.store("acme", 45)
    await house.shares.look()
    house.shares.add("acme", 90_000)
    assert not house.shares.is_over("acme")


async def test_above_the_half_who_holds_more_than_a_quarter_is_over(house: House) -> None:
    await house.store("acme", 40)
    await house.store("tenx", 20)
    await house.shares.look()
    assert [house.shares.is_over(tenant) for tenant in ("acme", "tenx", "new")] == [True, False, False]
    assert not house.shares.is_nearly_full


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
    await house.jetstream.ask(f"STREAM.PURGE.{house.stream}")
    await house.shares.look()
    assert not house.shares.is_nearly_full
    assert not house.shares.is_over("acme")
