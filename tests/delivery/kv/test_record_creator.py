"""Records created by callback, on a real bucket: what `WriteOnceKv.create` promises, for many at
once.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from router.core.clock import steady
from router.core.deferred import Deferred
from router.core.errors import BrokerUnavailable, NoLeader, Poison, StorageFull
from router.core.message import Effect
from router.delivery.kv import record_creator
from router.delivery.kv.record_creator import RecordCreator, WriteOnceKv
from router.delivery.publish import batching_publisher
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.delivery.wire.topology import StreamSpec, Topology, bucket, create
from tests.support.broker import Broker
from tests.support.delivery import connected, count_timers
from tests.support.publish_costs import write_in_batches
from tests.support.waiting import until


async def open_creator(
    jetstream: JetStream, bucket: str, timeout_s: float = 5.0, *, takes_batches: bool = False
) -> RecordCreator:
    """Its first record opens the inbox for the publish acks of the others."""
    records = WriteOnceKv(jetstream, bucket)
    creator = RecordCreator(jetstream, records, timeout_s, takes_batches=takes_batches)
    assert await creator.create("first", b"first") == b"first"
    return creator


@pytest.fixture
async def in_batches(
    jetstream: JetStream, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> RecordCreator:
    """Of a bucket whose publish acks are dear."""
    write_in_batches(monkeypatch)
    spec = replace(bucket(f"{prefix}_dear", ttl=60), allow_atomic=True)
    await create(jetstream, Topology((spec,)))
    return await open_creator(jetstream, f"{prefix}_dear", 60.0, takes_batches=True)


async def list_batched(jetstream: JetStream, stream: str) -> list[bytes]:
    """The records that came in batches, in their order."""
    found, sequence = [], 0
    while (one := await jetstream.get_next(stream, ">", sequence + 1)) is not None:
        sequence = one.sequence
        found += [one.data] if "Nats-Batch-Id" in one.headers else []
    return found


@asynccontextmanager
async def own_broker(timeout_s: float) -> AsyncIterator[tuple[Broker, Connection, RecordCreator]]:
    """A broker that the test stops or kills, a connection to it, and a creator of records there."""
    with Broker() as broker:
        async with connected(broker.url) as connection:
            jetstream = JetStream(connection)
            await create(jetstream, Topology((bucket("b", ttl=60),)))
            yield broker, connection, await open_creator(jetstream, "b", timeout_s)


async def test_many_at_once_each_stand(jetstream: JetStream, prefix: str) -> None:
    creator = await open_creator(jetstream, prefix)
    creating = [creator.create(f"k{number}", b"%d" % number) for number in range(300)]
    assert [await one for one in creating] == [b"%d" % number for number in range(300)]
    assert await WriteOnceKv(jetstream, prefix).find("k299") == b"299"


async def test_many_records_of_a_dear_bucket_go_in_batches(
    in_batches: RecordCreator, jetstream: JetStream, prefix: str
) -> None:
    creating = [in_batches.create(f"k{number}", b"%d" % number) for number in range(300)]
    assert [await one for one in creating] == [b"%d" % number for number in range(300)]
    batched = await list_batched(jetstream, f"KV_{prefix}_dear")
    assert batched == [b"%d" % number for number in range(300)]


async def test_a_record_that_stands_refuses_its_batch_and_is_found_again(
    in_batches: RecordCreator, jetstream: JetStream, prefix: str
) -> None:
    """10071: its neighbours are stored all the same, and the first record of a key counts."""
    await WriteOnceKv(jetstream, f"{prefix}_dear").create("k7", b"earlier")
    creating = [in_batches.create(f"k{number}", b"new") for number in range(20)]
    stored = [await one for one in creating]
    assert stored == [b"earlier" if number == 7 else b"new" for number in range(20)]


async def test_two_records_of_one_key_in_a_batch_are_one(in_batches: RecordCreator) -> None:
    """10164: the server refuses the batch."""
    creating = [in_batches.create("k", b"%d" % number) for number in range(20)]
    assert {await one for one in creating} == {b"0"}


async def test_a_full_bucket_takes_what_it_has_room_for_and_refuses_the_rest_of_a_batch(
    jetstream: JetStream, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_in_batches(monkeypatch)
    spec = replace(bucket(f"{prefix}_full", ttl=60, max_bytes=4000), allow_atomic=True)
    await create(jetstream, Topology((spec,)))
    creator = await open_creator(jetstream, f"{prefix}_full", 60.0, takes_batches=True)
    creating = [creator.create(f"k{number}", bytes(500)) for number in range(20)]
    results = await asyncio.gather(*(_outcome(one) for one in creating))
    assert 0 < results.count(StorageFull) < len(results)
    standing = await WriteOnceKv(jetstream, f"{prefix}_full").read_all()
    assert len(standing) == 1 + results.count(bytes)


async def _outcome(creating: Deferred[bytes]) -> type:
    try:
        return type(await creating)
    except StorageFull as exc:
        return type(exc)


async def test_a_bucket_that_takes_no_batches_is_written_one_by_one(
    jetstream: JetStream, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by hand, as `nats kv add` makes it."""
    write_in_batches(monkeypatch)
    creator = await open_creator(jetstream, prefix, 60.0, takes_batches=True)
    creating = [creator.create(f"k{number}", b"record") for number in range(100)]
    assert [await one for one in creating] == [b"record"] * 100
    assert await list_batched(jetstream, f"KV_{prefix}") == []


@pytest.mark.parametrize("reads", [True, False], ids=["it may have read it", "it has not"])
async def test_a_broker_that_dies_with_a_batch_on_its_way_has_each_record_once(
    monkeypatch: pytest.MonkeyPatch, *, reads: bool
) -> None:
    write_in_batches(monkeypatch)
    sent: list[int] = []
    write_batch = batching_publisher.write_batch

    def note(connection: Connection, effects: Sequence[Effect], name: str, inbox: str) -> None:
        sent.append(len(effects))
        write_batch(connection, effects, name, inbox)

    monkeypatch.setattr(batching_publisher, "write_batch", note)
    with Broker() as broker:
        async with connected(broker.url) as connection:
            jetstream = JetStream(connection, timeout_s=60)
            spec = replace(bucket("b", ttl=3600), allow_atomic=True)
            await create(jetstream, Topology((spec,)))
            creator = await open_creator(jetstream, "b", 60.0, takes_batches=True)
            if not reads:
                broker.pause()
            creating = [creator.create(f"k{number}", b"%d" % number) for number in range(300)]
            await until(lambda: bool(sent))
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            assert [await one for one in creating] == [b"%d" % number for number in range(300)]
            standing = await WriteOnceKv(jetstream, "b").read_all()
    assert len(standing) == 301


async def test_records_one_after_the_other_share_a_timer(
    jetstream: JetStream, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_creator, "LOOK_EVERY_S", 3600.0)
    creator = await open_creator(jetstream, prefix, timeout_s=3600.0)
    with count_timers(creator) as timers:
        for number in range(20):
            await creator.create(f"k{number}", b"record")
    assert len(timers) == 1


async def test_the_first_record_of_a_key_stands_for_every_instance(
    jetstream: JetStream, prefix: str
) -> None:
    one, other = (
        await open_creator(jetstream, prefix),
        RecordCreator(jetstream, WriteOnceKv(jetstream, prefix)),
    )
    creating = [
        creator.create("k", name)
        for creator, name in ((one, b"one"), (other, b"other"), (one, b"again"))
    ]
    stored = {await record for record in creating}
    assert stored == {await WriteOnceKv(jetstream, prefix).find("k")}


async def test_a_key_that_was_deleted_is_free_again(jetstream: JetStream, prefix: str) -> None:
    creator = await open_creator(jetstream, prefix)
    await creator.create("k", b"one")
    await jetstream.publish(f"$KV.{prefix}.k", b"", {"KV-Operation": "PURGE", "Nats-Rollup": "sub"})
    assert await creator.create("k", b"other") == b"other"


async def test_a_full_bucket_is_full(jetstream: JetStream, prefix: str) -> None:
    spec = StreamSpec(
        name=f"KV_{prefix}_full", subjects=(f"$KV.{prefix}_full.>",), discard="new", max_bytes=1000
    )
    await create(jetstream, Topology((spec,)))
    creator = await open_creator(jetstream, f"{prefix}_full")
    with pytest.raises(StorageFull):
        await creator.create("k", bytes(2000))


async def test_what_no_connection_can_carry_is_hopeless(jetstream: JetStream, prefix: str) -> None:
    creator = await open_creator(jetstream, prefix)
    with pytest.raises(Poison):
        await creator.create("k", bytes(jetstream.connection.max_payload))


async def test_a_missing_bucket_is_away(jetstream: JetStream, prefix: str) -> None:
    creator = await open_creator(jetstream, prefix)
    assert await jetstream.ask(f"STREAM.DELETE.KV_{prefix}")
    with pytest.raises(BrokerUnavailable):
        await creator.create("k", b"record")


async def test_a_broker_that_stands_still_ends_each_create_in_time() -> None:
    async with own_broker(timeout_s=0.5) as (broker, _, creator):
        broker.pause()
        creating = [creator.create("k", b"record"), creator.create("other", b"record")]
        for one in creating:
            with pytest.raises(NoLeader):
                async with asyncio.timeout(30):
                    await one
        broker.unpause()
        creator._publisher._timeout_s = 60.0
        # it was stored: only its publish ack came late
        assert await creator.create("k", b"another") == b"record"


async def test_records_that_are_tried_again_without_a_connection_fill_no_buffer() -> None:
    async with own_broker(timeout_s=0.1) as (broker, connection, creator):
        broker.kill()
        await until(lambda: not connection.is_connected)
        for _ in range(20):
            with pytest.raises(BrokerUnavailable):
                await creator.create("k", bytes(100_000))
        assert connection.pending_data_size < 300_000
        broker.start()
        await until(lambda: connection.is_connected)
        creator._publisher._timeout_s = 30.0
        assert await creator.create("k", b"record") == b"record"


async def test_what_a_vanished_leader_took_with_it_is_created_as_soon_as_the_next_one_answers(
    jetstream: JetStream, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock stands two seconds later: none waits for the end of its time."""
    creator = await open_creator(jetstream, prefix, timeout_s=3600.0)
    with monkeypatch.context() as vanished:
        vanished.setattr(jetstream.connection, "publish_nowait", lambda *_: None)
        creating = [creator.create(key, key.encode()) for key in ("a", "b", "c")]
    creator._publisher._now = lambda: steady() + 2.0
    creator._look()
    assert [await one for one in creating] == [b"a", b"b", b"c"]


async def test_a_record_whose_publish_ack_is_lost_stands_as_it_was_created(
    jetstream: JetStream, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second copy is refused, which proves that there is a leader again, and the record that
    stands is the first one's.
    """
    creator = await open_creator(jetstream, prefix, timeout_s=3600.0)
    with monkeypatch.context() as deaf:
        deaf.setattr(
            jetstream.connection,
            "publish_nowait",
            lambda subject, record, _inbox, head: lost.append((subject, record, head)),
        )
        lost: list[tuple[str, bytes, bytes]] = []
        creating = creator.create("a", b"a")
    for subject, record, head in lost:
        jetstream.connection.publish_nowait(subject, record, "", head)
    await jetstream.connection.flush()
    creator._publisher._now = lambda: steady() + 2.0
    creator._look()
    assert await creating == b"a"
