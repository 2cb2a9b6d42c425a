"""A message in a stream without publish acks is known to be stored when a consumer of the stream
delivers it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from router.core.errors import BrokerUnavailable, Poison
from router.delivery.publish import readback as readbacks
from router.delivery.publish.readback import ConfirmByReadback
from router.delivery.wire.api import JetStream
from tests.support.beside import beside
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.made_anew import create_stream
from tests.support.waiting import until

WINDOW_S = 0.1
LONG_WINDOW_S = 60.0  # a busy machine does not reach it


@contextlib.asynccontextmanager
async def reading(
    broker: Broker, name: str, within_s: float = 60.0, *, window_s: float = WINDOW_S
) -> AsyncIterator[tuple[ConfirmByReadback, JetStream]]:
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        await make(jetstream, name, window_s)
        readback = ConfirmByReadback(
            jetstream, name, f"{name}.in", window_s=window_s, within_s=within_s
        )
        async with beside(readback.run()):
            await until(lambda: readback.is_hearing)
            yield readback, jetstream


async def make(jetstream: JetStream, name: str, window_s: float = WINDOW_S) -> None:
    window = int(window_s * 1e9)
    await create_stream(
        jetstream, name, {"subjects": [f"{name}.in"], "no_ack": True, "duplicate_window": window}
    )


async def test_the_sequence_is_that_of_the_stored_message(broker: Broker, prefix: str) -> None:
    async with reading(broker, prefix) as (readback, jetstream):
        for name in ("a", "b"):
            sequence = await readback.store(name.encode(), {"Nats-Msg-Id": name})
            stored = await jetstream.message(prefix, sequence)
            assert stored is not None
            assert (stored.data, stored.headers["Nats-Msg-Id"]) == (name.encode(), name)


async def test_many_at_once_are_each_stored_once(broker: Broker, prefix: str) -> None:
    async with reading(broker, prefix, window_s=LONG_WINDOW_S) as (readback, jetstream):
        sequences = await asyncio.gather(
            *(readback.store(b"", {"Nats-Msg-Id": str(name)}) for name in range(500))
        )
        assert sorted(sequences) == list(range(1, 501))
        assert (await jetstream.stream(prefix) or {})["state"]["messages"] == 500


async def test_a_duplicate_is_stored_anew_when_the_window_is_over(
    broker: Broker, prefix: str
) -> None:
    async with reading(broker, prefix) as (readback, _):
        first, second = [await readback.store(b"", {"Nats-Msg-Id": "a"}) for _ in range(2)]
        assert first < second


async def test_two_that_store_the_same_at_once_hear_of_the_same(
    broker: Broker, prefix: str
) -> None:
    async with reading(broker, prefix) as (readback, _):
        first, second = await asyncio.gather(
            *(readback.store(b"", {"Nats-Msg-Id": "a"}) for _ in range(2))
        )
        assert first == second


async def test_what_is_not_seen_in_time_is_not_known(broker: Broker, prefix: str) -> None:
    async with reading(broker, prefix, within_s=0.3) as (readback, jetstream):
        await jetstream.ask(f"STREAM.DELETE.{prefix}")
        with pytest.raises(BrokerUnavailable):
            await readback.store(b"", {"Nats-Msg-Id": "a"})


async def test_a_stream_that_is_made_again_is_heard_again(broker: Broker, prefix: str) -> None:
    async with reading(broker, prefix) as (readback, jetstream):
        await jetstream.ask(f"STREAM.DELETE.{prefix}")
        await until(lambda: not readback.is_hearing)
        await make(jetstream, prefix)
        assert await readback.store(b"", {"Nats-Msg-Id": "a"}) == 1


async def test_a_message_that_the_connection_cannot_carry_is_never_sent(
    broker: Broker, prefix: str
) -> None:
    async with reading(broker, prefix) as (readback, _):
        with pytest.raises(Poison):
            await readback.store(b"x" * (8 * 1024 * 1024), {"Nats-Msg-Id": "a"})
        assert await readback.store(b"", {"Nats-Msg-Id": "a"}) == 1


async def test_it_hears_again_when_the_server_comes_back() -> None:
    with Broker() as broker:
        async with reading(broker, "restarted") as (readback, _):
            assert await readback.store(b"", {"Nats-Msg-Id": "a"}) == 1
            broker.kill()
            broker.start()
            # it may be stored twice, and is known once it is seen
            assert await readback.store(b"", {"Nats-Msg-Id": "b"}) >= 2


async def test_reconnects_leave_no_consumer_behind(
    broker: Broker, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readbacks, "INACTIVE_THRESHOLD_S", 1)
    async with reading(broker, prefix) as (readback, jetstream):
        followed, follow = [], readback._follow

        async def note(inbox: str) -> bool:
            is_there = await follow(inbox)
            followed.append(inbox)
            return is_there

        async def is_one_left() -> bool:
            info = await jetstream.stream(prefix)
            return info is not None and info["state"]["consumer_count"] == 1

        monkeypatch.setattr(readback, "_follow", note)
        for number in (1, 2):
            await jetstream.connection.force_reconnect()
            await until(lambda number=number: len(followed) == number)  # type: ignore[misc]
        await until(is_one_left)
        assert await readback.store(b"", {"Nats-Msg-Id": "a"}) == 1
