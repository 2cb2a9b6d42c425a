import asyncio

from nats.aio.client import Client

from router.delivery.api import JetStream
from router.delivery.stream_reader import open_reader
from tests.support.delivery import connected


async def test_a_reader_that_is_told_to_stop_just_when_the_last_message_comes_stops(nc: Client, nats_url: str, prefix: str) -> None:
    """A loop that reads on for ever, as the relay's scrub does, would never hear of it again."""
    await nc.jetstream().add_stream(name=prefix, subjects=[prefix])
    await nc.jetstream().publish(prefix, b"one")
    async with connected(nats_url) as connection, open_reader(JetStream(connection), prefix) as reader:
        end = reader._ended.set

        def end_and_cancel() -> None:
            end()
            task.cancel()

        reader._ended.set = end_and_cancel  # type: ignore[method-assign]
        task = asyncio.create_task(reader.read(1))
        await asyncio.wait([task])
        assert task.cancelled()
