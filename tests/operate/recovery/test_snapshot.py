"""A server that works for long before it answers: to check a stream's messages, or to make a stream
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import orjson
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.core.errors import BrokerUnavailable
from router.delivery.wire.api import JetStream
from router.operate.recovery import backup as snapshots
from router.operate.recovery.backup import Snapshot, restore_snapshot, take_snapshot
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.patient_client import connect_patiently
from tests.support.waiting import until

SLOW = "slow"  # a domain whose API is a relay to the server's own
SHORT_S = 0.1  # the time for other requests, shorter than the server's work
STREAM = "EVENTS"


async def test_a_snapshot_waits_until_the_server_has_checked_every_message(
    own_broker: Broker,
) -> None:
    async with _slow_domain(own_broker) as (slow, _):
        _, data = await _take(JetStream(slow.connection, SLOW, timeout_s=SHORT_S))
        assert data.startswith(b"\xff\x06\x00\x00S2sTwO")


async def test_a_restore_waits_until_the_server_has_made_the_stream(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _slow_domain(own_broker) as (slow, _):
        jetstream = JetStream(slow.connection)
        snapshot, data = await _take(jetstream)
        await jetstream.ask(f"STREAM.DELETE.{STREAM}")

        def read_chunks() -> Iterator[bytes]:
            yield data
            monkeypatch.setattr(snapshots, "SILENCE_S", SHORT_S)  # what comes next is the end

        info = await restore_snapshot(slow, STREAM, snapshot, read_chunks())
        assert info["state"]["messages"] == 1


async def test_an_answer_that_cannot_come_any_more_is_not_waited_for(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server dies within its work."""
    monkeypatch.setattr(snapshots, "LOOK_S", 0.05)
    async with _slow_domain(own_broker, work_s=3600) as (slow, api):
        taking = asyncio.create_task(_take(slow))
        await api.works.wait()
        own_broker.kill()
        with pytest.raises(
            BrokerUnavailable,
            match=r"STREAM\.SNAPSHOT\.EVENTS: the connection was lost before the answer",
        ):
            await taking
        own_broker.start()


async def _take(jetstream: JetStream) -> tuple[Snapshot, bytes]:
    taken: list[bytes] = []
    return await take_snapshot(jetstream, STREAM, taken.append), b"".join(taken)


@asynccontextmanager
async def _slow_domain(
    server: Broker, work_s: float = 5 * SHORT_S
) -> AsyncIterator[tuple[JetStream, _SlowApi]]:
    """A stream with a message, and the API of a domain that asks the server and answers a
    snapshot's or a restore's end later.
    """
    own = await connect_patiently(server.url)
    async with connected(server.url) as connection:
        await JetStream(connection).ask(
            f"STREAM.CREATE.{STREAM}", {"name": STREAM, "subjects": ["events"]}
        )
        await own.request("events", b"one", timeout=60)
        api = _SlowApi(own, work_s)
        await own.subscribe(f"$JS.{SLOW}.API.>", cb=api.ask)
        await own.subscribe(f"{SLOW}.>", cb=api.take_chunk)
        await own.flush()
        yield JetStream(connection, SLOW), api
    # nats-py's close raises CancelledError while it connects again
    await until(lambda: own.is_connected, within_s=60)
    await own.close()


class _SlowApi:
    """Asks the server the same at once, and answers later what a server answers after its work.
    `works`: it does.
    """

    def __init__(self, own: Client, work_s: float) -> None:
        self.works = asyncio.Event()
        self._own = own
        self._work_s = work_s

    async def ask(self, asked: Msg) -> None:
        answer = orjson.loads(
            (
                await self._own.request(
                    asked.subject.replace(f".{SLOW}", ""), asked.data, timeout=60
                )
            ).data
        )
        if ".SNAPSHOT." in asked.subject:
            await self._work()
        if target := answer.get("deliver_subject", ""):
            answer["deliver_subject"] = f"{SLOW}.{target}"
        await asked.respond(orjson.dumps(answer))

    async def take_chunk(self, asked: Msg) -> None:
        answer = await self._own.request(
            asked.subject.removeprefix(f"{SLOW}."), asked.data, timeout=60
        )
        if not asked.data:
            await self._work()
        await asked.respond(answer.data)

    async def _work(self) -> None:
        self.works.set()
        await asyncio.sleep(self._work_s)
