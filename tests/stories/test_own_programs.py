"""Programs of a user's own: what they write where something fails, and how they end."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from nats.aio.client import Client

from router.delivery.api import JetStream
from router.delivery.topology import StreamSpec, Topology, bucket, create
from tests.support.agents import stored
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.own_programs import an_own_program
from tests.support.sdk import a_body

SECRET = "patient 4711"

BUS = """
import asyncio, sys
from router import Bus

async def handle(envelope):
    payload, note = envelope.payload, envelope.payload["note"]
    raise RuntimeError("the handler fails")

async def main():
    async with Bus(sys.argv[1]) as bus:
        await bus.publish("LoopCreated", {"note": sys.argv[2]}, message_id="evt_1", actor_id="u", actor_kind="HUMAN")
        await bus.consume("failing", handle)

asyncio.run(main())
"""
WORKER = """
import asyncio, sys
from router import Worker

async def answer(assignment):
    payload, note = assignment.payload, str(assignment.payload)
    raise RuntimeError("the handler fails")

asyncio.run(Worker(sys.argv[1], answer, worker_id="w-1").run())
"""
AGENT = """
import asyncio, sys
from router import Agent

class Failing:
    name = "failing"
    def receive(self, envelope): ...
    def apply(self, ctx, envelope):
        payload, note = envelope.payload, envelope.payload["note"]
        raise RuntimeError("the handler fails")

asyncio.run(Agent(sys.argv[1], Failing(), store=sys.argv[3]).run())
"""


async def assign(nc: Client, url: str) -> None:
    async with connected(url) as connection:
        subjects = {"ROUTER_ASSIGNMENTS": "caf.exec.assign.v1", "ROUTER_RESULTS": "caf.exec.result.v1", "ROUTER_DLQ": "caf.exec.dlq.v1"}
        streams = [StreamSpec(name=name, subjects=(subject,)) for name, subject in subjects.items()]
        await create(JetStream(connection), Topology((*streams, bucket("ROUTER_STARTS", ttl=60))))
    await stored(nc.jetstream(), json.dumps(a_body(job={"type": "chat", "payload": SECRET})).encode(), "caf.exec.assign.v1")


async def command(nc: Client, url: str) -> None:
    await stored(nc.jetstream(), json.dumps({"type": "x", "payload": {"note": SECRET}}).encode(), "cmd.default.demo.failing.x")


async def nothing(nc: Client, url: str) -> None: ...


@pytest.mark.parametrize(("program", "send"), [(BUS, nothing), (WORKER, assign), (AGENT, command)], ids=["bus", "worker", "agent"])
async def test_a_failing_handler_s_payload_is_written_nowhere(
    broker: Broker, nc: Client, tmp_path: Path, program: str, send: Callable[[Client, str], Awaitable[None]]
) -> None:
    """A library logs through `logging`: warnings on standard error, without the values of local variables; nothing on standard output."""
    async with an_own_program(program, broker.url, SECRET, tmp_path / "store.db") as running:
        await send(nc, broker.url)
        await running.says("the handler fails")
        await running.says("handler.failed")
        await running.kill()
    assert running.out == ""
    assert SECRET not in running.err
    assert "Traceback" in running.err
