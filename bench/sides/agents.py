"""An agent on the event store: as the runtime works, and one command at a time; and a store without
a broker that grows large.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path

import nats
from nats.aio.msg import Msg

from bench.child import Ready
from bench.question import Measured
from bench.sides.store import BATCH
from bench.stretch import MIB, resident_bytes, stretch
from bench.ways import current
from router.agents.agent import AgentRuntime
from router.agents.batch import BatchProcessor
from router.agents.database import StoreFile
from router.agents.outgoing import OutputRules, PublishAckBuffer
from router.agents.store import Store
from router.agents.topology import AgentTopology, subscriptions_of, topology_of
from router.core.message import Message
from router.core.outcome import Done, PublishAck
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.delivery.wire.topology import Topology
from router.process.memory import calm_collector
from router.sdk.agent import Context, Envelope, Outgoing

SUBJECT = "cmd.default.demo.counter.add"
ADDED = "evt.default.demo.counter.added"
ACCOUNTS = 1_000
TOPOLOGY = AgentTopology(replicas=current().replicas)
HEAP = 1_024


class Counter:
    """A state update and one message for each command."""

    name = "counter"

    def receive(self, envelope: Envelope) -> None: ...

    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        name = envelope.payload["account"]
        balance = ctx.state.get(name, 0) + envelope.payload["amount"]
        ctx.state.put(name, balance)
        return [Outgoing(ADDED, "added", {"account": name, "balance": balance})]


def command(number: int) -> bytes:
    payload = {
        "account": f"account-{number % ACCOUNTS}",
        "amount": number % 100,
        "note": "as long as a short remark",
    }
    return json.dumps(
        {"idempotency_key": f"{number:08x}-5b1e-4c8f-9a53", "type": "add", "payload": payload}
    ).encode()


async def fill(ready: Ready, *, url: str, count: int) -> Measured:
    """Store commands 0 … count - 1 in the work queue."""
    connection = await connect({"servers": [url]})
    jetstream = JetStream(connection)
    await topology.create(jetstream, Topology(TOPOLOGY.streams()))
    for number in range(count):
        connection.publish_nowait(SUBJECT, command(number))
        if number % BATCH == BATCH - 1:
            await connection.flush()
    await connection.flush()
    while ((await jetstream.stream("MESHFORGE_COMMANDS")) or {})["state"]["last_seq"] < count:  # noqa: ASYNC110 - asks the server
        await asyncio.sleep(0.002)
    await connection.close()
    return {"stored": count}


async def agent(ready: Ready, *, url: str, store: str, first: int, last: int) -> Measured:
    """The whole runtime, as `router agent run` has it; drained afterwards, so that the broker has
    every acknowledgement.
    """
    connection = await connect({"servers": [url]})
    runtime = AgentRuntime(Counter(), Path(store), TOPOLOGY)
    with calm_collector():
        figures = await _worked(runtime, JetStream(connection), ready, first, last)
    await connection.close()
    return figures


async def _worked(
    runtime: AgentRuntime, jetstream: JetStream, ready: Ready, first: int, last: int
) -> Measured:
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(runtime.run(jetstream, ready))
        figures = await stretch(lambda: runtime.stats.applied, first, last)
        working.cancel()
        return figures


async def one_by_one(ready: Ready, *, url: str, store: str, first: int, last: int) -> Measured:
    """The yardstick: the same store and adapter, stock nats-py, one thing after the other."""
    await _durable(url, store)
    client = await nats.connect(url)
    loop = OneByOne(client, Path(store))
    working = asyncio.create_task(loop.run(last))
    figures = await stretch(lambda: loop.done, first, last)
    await working
    await client.close()
    loop.database.close()
    return figures


async def _durable(url: str, store: str) -> None:
    connection = await connect({"servers": [url]})
    posts = subscriptions_of(Counter(), TOPOLOGY)
    await topology.create(JetStream(connection), topology_of(posts, TOPOLOGY, "bench"))
    await connection.close()


class OneByOne:
    """One command: fetched, persisted, applied, published, acknowledged; each waited for."""

    def __init__(self, client: nats.NATS, store: Path) -> None:
        self._js = client.jetstream()
        self.database = StoreFile(store)
        self._store = Store(self.database, "counter")
        self._publish_acks = PublishAckBuffer()
        self._batch = BatchProcessor(
            Counter(),
            self._store,
            self._publish_acks,
            limit=5,
            rules=OutputRules(TOPOLOGY.is_bound),
            mark_dead=lambda _: _never,
        )
        self.done = 0

    async def run(self, last: int) -> None:
        commands = await self._js.pull_subscribe_bind("counter_consumer", "MESHFORGE_COMMANDS")
        while self.done < last:
            (message,) = await commands.fetch(1, timeout=30)
            await self._work(message)
            self.done += 1

    async def _work(self, message: Msg) -> None:
        (outcome,) = self._batch.handle([_message(message)])
        assert isinstance(outcome, Done)
        for effect in outcome.effects:
            headers = {**effect.headers, "Nats-Msg-Id": effect.id}
            ack = await self._js.publish(effect.subject, effect.data, headers=headers)
            self._publish_acks.note([PublishAck(effect.id, ack.stream, ack.seq, False)])
        await message.ack_sync()


async def _never(_: object) -> None:
    raise AssertionError("no command of the bench is given up")


def _message(message: Msg) -> Message:
    meta = message.metadata
    stored_ns = int(meta.timestamp.timestamp() * 1e9)
    return Message(
        message.subject,
        message.data,
        {},
        meta.stream,
        meta.consumer,
        meta.sequence.stream,
        stored_ns,
        1,
        "",
    )


async def large(ready: Ready, *, store: str, events: int) -> Measured:
    """Events in batches, marked as sent with the next one; what the process holds at a fifth and in
    the end; the store opened again.
    """
    begun, fifth = time.perf_counter(), 0
    database = StoreFile(Path(store))
    publish_acks = PublishAckBuffer()
    batch = BatchProcessor(
        Counter(),
        Store(database, "counter"),
        publish_acks,
        limit=5,
        rules=OutputRules(TOPOLOGY.is_bound),
        mark_dead=lambda _: _never,
    )
    for start in range(0, events, HEAP):
        numbers = range(start, min(start + HEAP, events))
        for outcome in batch.handle([a_delivery(number) for number in numbers]):
            assert isinstance(outcome, Done)
            publish_acks.note([PublishAck(effect.id, "E", 1, False) for effect in outcome.effects])
        if not fifth and start >= events // 5:
            fifth = resident_bytes()
    seconds, growth = time.perf_counter() - begun, resident_bytes() - fifth
    database.close()
    begun = time.perf_counter()
    again = StoreFile(Path(store))
    left = Store(again, "counter").list_resumable(5)
    opened = time.perf_counter() - begun
    assert left == []
    again.close()
    return {
        "rate": events / seconds,
        "growth_mib": growth / MIB,
        "open_s": opened,
        "peak_mib": resident_bytes() / MIB,
    }


def a_delivery(number: int) -> Message:
    return Message(
        SUBJECT,
        command(number),
        {},
        "MESHFORGE_COMMANDS",
        "counter_consumer",
        number + 1,
        10**18 + number,
        1,
        "",
    )
