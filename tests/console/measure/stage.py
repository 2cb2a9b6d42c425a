"""A broker full of data, a router at work on it, and the console as a process of its own."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from msgspec import Struct

from router import Client
from router.app.connect import connect_by
from router.config import load
from router.delivery.api import JetStream
from tests.support.broker import Broker
from tests.support.cli import COMMAND, clean_environment, serve_router
from tests.support.console_data import TENANTS, ConsoleData, fill_console

PAUSE_S = 0.02  # between two requests


class Stage(Struct, frozen=True):
    """`console`: its address; `pid`: its process; `stored`: messages of each stream that was filled."""

    broker: str
    console: str
    pid: int
    stored: dict[str, int]


@asynccontextmanager
async def a_stage(data: ConsoleData) -> AsyncIterator[Stage]:
    broker = Broker().start()
    try:
        with serve_router("--nats-url", broker.url, "--http-port", "0") as served:
            stored = await fill(broker.url, data)
            with a_console_process(broker.url, served.ready["http"]) as (pid, address):
                yield Stage(broker.url, address, pid, stored)
    finally:
        broker.remove()


async def fill(url: str, data: ConsoleData) -> dict[str, int]:
    settings = load(None, {"nats.url": url}, {}).settings
    connection = await connect_by(settings.nats)
    jetstream = JetStream(connection)
    await fill_console(jetstream, settings, data)
    buckets, streams = settings.buckets, settings.streams
    names = (streams.dlq.name, streams.violations.name, f"KV_{buckets.policies.name}", f"KV_{buckets.assignments_known.name}")
    found = {name: await jetstream.stream(name) for name in names}
    await connection.close()
    return {name: info["state"]["messages"] if info is not None else 0 for name, info in found.items()}


@contextmanager
def a_console_process(url: str, metrics: str) -> Iterator[tuple[int, str]]:
    """Its pid and its address, without a slash at its end."""
    command = [*COMMAND, "console", "--nats-url", url, "--http-port", "0", "--metrics", metrics]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=clean_environment())
    try:
        assert process.stdout is not None
        yield process.pid, json.loads(process.stdout.readline())["http"].rstrip("/")
    finally:
        process.terminate()
        process.communicate()


@asynccontextmanager
async def requests(url: str) -> AsyncIterator[None]:
    """Requests, some of which are refused, as long as the block lasts."""
    task = asyncio.create_task(_send_requests(url))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _send_requests(url: str) -> None:
    async with Client(url) as client:
        for number in range(100_000_000):
            policy = "nowhere" if number % 31 == 0 else "default"
            with suppress(Exception):
                await client.decide(tenant_id=TENANTS[number % 3], message_type="chat", payload={"text": "hello"}, policy_id=policy)
            await asyncio.sleep(PAUSE_S)
