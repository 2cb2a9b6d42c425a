"""What an agent sends for many inputs at once, on a real server: batches that are stored, refused,
and cut off.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.agents.envelope import derive_ids
from router.delivery.wire.api import JetStream
from tests.support.agents import (
    an_agent,
    count_applied,
    count_unsent,
    is_empty,
    publish_commands,
    read_sent,
)
from tests.support.broker import Broker
from tests.support.counting_agent import COUNTED
from tests.support.delivery import connected
from tests.support.publish_costs import write_in_batches
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("_in_batches")
EVENTS = "MESHFORGE_EVENTS"
MANY = 150
KNOWN = [f"k-{number}" for number in range(0, MANY, 10)]  # so that any batch has one


@pytest.fixture
def _in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    write_in_batches(monkeypatch)


async def _batched(jetstream: JetStream) -> int:
    """How many messages came to the stream in batches."""
    count, sequence = 0, 0
    while (message := await jetstream.get_next(EVENTS, COUNTED, sequence + 1)) is not None:
        sequence = message.sequence
        count += "Nats-Batch-Id" in message.headers
    return count


async def _all_once(jetstream: JetStream, store: Path, within_s: float = 30) -> None:
    await until(lambda: is_empty(jetstream), within_s=within_s)
    await until(lambda: count_unsent(store) == 0, within_s=within_s)
    keys = [f"k-{number}" for number in range(MANY)]
    assert count_applied(store) == dict.fromkeys(keys, 1)
    assert sorted(one["payload"]["key"] for one in await read_sent(jetstream)) == sorted(keys)


async def _heard_on(nc: Client, subject: str) -> list[bytes]:
    """What is published there, stored or not; it grows."""
    heard: list[bytes] = []

    async def hear(message: Msg) -> None:
        heard.append(message.data)

    await nc.subscribe(subject, cb=hear)
    await nc.flush()
    return heard


async def _with_limit(jetstream: JetStream, most: int) -> None:
    """Let the events' stream hold so many messages, and refuse more."""
    info: dict[str, Any] = await jetstream.stream(EVENTS) or {}
    await jetstream.ask(f"STREAM.UPDATE.{EVENTS}", {**info["config"], "max_msgs": most})


async def _streams(url: str, store: Path) -> None:
    async with an_agent(url, store):
        pass  # they are there when it is ready


async def test_an_id_that_stands_there_refuses_its_batch_and_is_not_stored_again(
    broker: Broker, nc: Client, tmp_path: Path
) -> None:
    """MF-7: 10201; an earlier life's message whose publish ack was lost."""
    store = tmp_path / "w.db"
    await _streams(broker.url, store)
    for key in KNOWN:
        known, _ = derive_ids("outgoing", "witness", key, "0")
        await nc.jetstream().publish(
            COUNTED, json.dumps({"payload": {"key": key}}).encode(), headers={"Nats-Msg-Id": known}
        )
    await publish_commands(nc, range(MANY))
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        published = await _heard_on(nc, COUNTED)
        async with an_agent(broker.url, store):
            await _all_once(jetstream, store)
        await nc.flush()
        assert len(published) >= MANY + 2  # a batch, and then one by one what was in it


async def test_a_batch_that_the_stream_refuses_acknowledges_nothing_until_it_is_stored(
    nc: Client, broker: Broker, tmp_path: Path
) -> None:
    """MF-4: the stream is full; its messages wait, and go on where they were once there is room."""
    store = tmp_path / "w.db"
    await _streams(broker.url, store)
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        await publish_commands(nc, range(MANY))
        await _with_limit(jetstream, 40)
        async with an_agent(broker.url, store, ack_wait=30.0) as agent:
            await until(lambda: agent.stats.waiting)
            commands: dict[str, Any] = await jetstream.stream("MESHFORGE_COMMANDS") or {}
            assert MANY - commands["state"]["messages"] <= 40
            await _with_limit(jetstream, -1)
            await _all_once(jetstream, store)
            assert await _batched(jetstream) >= 2
            assert (agent.stats.applied, agent.stats.retried, agent.stats.dead) == (MANY, 0, 0)


async def test_a_broker_that_dies_and_comes_back_has_every_message_once(
    nc: Client, broker: Broker, tmp_path: Path
) -> None:
    """MF-7: killed while batches are on their way."""
    store = tmp_path / "w.db"
    await _streams(broker.url, store)
    await publish_commands(nc, range(MANY))
    async with connected(broker.url) as connection, an_agent(broker.url, store) as agent:
        await until(lambda: agent.stats.applied > 20)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        await _all_once(JetStream(connection, timeout_s=60), store)
