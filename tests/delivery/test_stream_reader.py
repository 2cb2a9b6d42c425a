import asyncio

from nats.aio.client import Client

from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream
from tests.support.delivery import connected
from tests.support.waiting import until


async def test_a_reader_that_is_told_to_stop_just_when_the_last_message_comes_stops(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """A loop that reads on for ever, as the relay's scrub does, would never hear of it again."""
    await nc.jetstream().add_stream(name=prefix, subjects=[prefix])
    await nc.jetstream().publish(prefix, b"one")
    async with (
        connected(nats_url) as connection,
        open_reader(JetStream(connection), prefix) as reader,
    ):
        end = reader._ended.set

        def end_and_cancel() -> None:
            end()
            task.cancel()

        reader._ended.set = end_and_cancel  # type: ignore[method-assign]
        task = asyncio.create_task(reader.read(1))
        await asyncio.wait([task])
        assert task.cancelled()


async def test_all_are_read_in_order_a_page_at_a_time(
    nc: Client, nats_url: str, prefix: str
) -> None:
    await store(nc, prefix, 5)
    async with (
        connected(nats_url) as connection,
        open_reader(JetStream(connection), prefix) as reader,
    ):
        pages = [[one.sequence for one in page] async for page in reader.read_all(2)]
    assert pages == [[1, 2], [3, 4], [5]]


async def test_no_more_are_read_than_asked_for(nc: Client, nats_url: str, prefix: str) -> None:
    await store(nc, prefix, 5)
    async with (
        connected(nats_url) as connection,
        open_reader(JetStream(connection), prefix) as reader,
    ):
        pages = [[one.sequence for one in page] async for page in reader.read_all(2, 3)]
    assert pages == [[1, 2], [3]]


async def test_the_next_page_comes_while_the_caller_works_on_this_one(
    nc: Client, nats_url: str, prefix: str
) -> None:
    await store(nc, prefix, 5)
    async with (
        connected(nats_url) as connection,
        open_reader(JetStream(connection), prefix) as reader,
    ):
        pages = reader.read_all(2)
        assert [one.sequence for one in await anext(pages)] == [1, 2]
        name = reader._name
        await until(lambda: is_delivered(nc, prefix, name, 4))
        assert [[one.sequence for one in page] async for page in pages] == [[3, 4], [5]]


async def test_what_is_removed_meanwhile_ends_the_reading(
    nc: Client, nats_url: str, prefix: str
) -> None:
    await store(nc, prefix, 5)
    async with (
        connected(nats_url) as connection,
        open_reader(JetStream(connection), prefix) as reader,
    ):
        await nc.jetstream().purge_stream(prefix)
        assert [page async for page in reader.read_all(2)] == []


async def store(nc: Client, stream: str, count: int) -> None:
    jetstream = nc.jetstream()
    await jetstream.add_stream(name=stream, subjects=[stream])
    for number in range(count):
        await jetstream.publish(stream, str(number).encode())


async def is_delivered(nc: Client, stream: str, consumer: str, through: int) -> bool:
    info = await nc.jetstream().consumer_info(stream, consumer)
    return info.delivered is not None and info.delivered.stream_seq == through
