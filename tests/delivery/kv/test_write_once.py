"""Records on a real bucket: the first writer of a key wins; a bucket that cannot be reached is
never taken for an empty one.
"""

from collections.abc import AsyncIterator

import pytest
from msgspec import Struct

from router.core.errors import BrokerUnavailable, Poison, StorageFull
from router.delivery.kv.record_creator import WriteOnceKv
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import StreamSpec, Topology, bucket, create
from tests.support.delivery import connected


class Place(Struct):
    jetstream: JetStream
    bucket: str

    @property
    def records(self) -> WriteOnceKv:
        return WriteOnceKv(self.jetstream, self.bucket)

    async def purge(self, key: str) -> None:
        headers = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
        await self.jetstream.publish(f"$KV.{self.bucket}.{key}", b"", headers)


@pytest.fixture
async def place(nats_url: str, prefix: str) -> AsyncIterator[Place]:
    async with connected(nats_url) as connection:
        jetstream = JetStream(connection)
        await create(jetstream, Topology((bucket(prefix, ttl=60),)))
        yield Place(jetstream, prefix)


async def test_the_first_record_stands_and_every_instance_reads_it(place: Place) -> None:
    assert await place.records.create("k", b"first") == b"first"
    assert await place.records.create("k", b"second") == b"first"
    assert await place.records.find("k") == b"first"


async def test_what_was_never_written_is_none(place: Place) -> None:
    assert await place.records.find("k") is None


async def test_a_key_that_was_deleted_is_free_again(place: Place) -> None:
    await place.records.create("k", b"first")
    await place.purge("k")
    assert await place.records.find("k") is None
    assert await place.records.create("k", b"second") == b"second"
    assert await place.records.create("k", b"third") == b"second"


async def test_a_missing_bucket_is_away_and_not_empty(place: Place) -> None:
    missing = WriteOnceKv(place.jetstream, "nowhere")
    with pytest.raises(BrokerUnavailable):
        await missing.find("k")
    with pytest.raises(BrokerUnavailable):
        await missing.create("k", b"record")


async def test_a_full_bucket_takes_nothing_and_can_be_read(place: Place) -> None:
    spec = StreamSpec(
        name=f"KV_{place.bucket}_full",
        subjects=(f"$KV.{place.bucket}_full.>",),
        discard="new",
        max_bytes=1000,
    )
    await create(place.jetstream, Topology((spec,)))
    records = WriteOnceKv(place.jetstream, f"{place.bucket}_full")
    assert await records.create("small", b"record") == b"record"
    with pytest.raises(StorageFull):
        await records.create("k", bytes(2000))
    assert await records.find("small") == b"record"


async def test_what_no_connection_can_carry_is_hopeless(place: Place) -> None:
    with pytest.raises(Poison):
        await place.records.create("k", bytes(place.jetstream.connection.max_payload))
