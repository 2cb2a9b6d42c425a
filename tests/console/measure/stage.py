"""A broker full of data, a router at work on it, and the console as a process of its own."""

import asyncio
import json
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import httpx2
from msgspec import Struct

from router import Client
from router.config import load
from router.config.connect import connect_by
from router.delivery.wire.api import JetStream
from tests.support.beside import beside
from tests.support.broker import Broker
from tests.support.cli import COMMAND, clean_environment, serve_router
from tests.support.console_data import TENANTS, ConsoleData, fill_console
from tests.support.console_signs import send_heartbeats, store_figures, write_usage
from tests.support.waiting import until

PAUSE_S = 0.1  # between two requests


class Stage(Struct, frozen=True):
    """`console`: its address; `pid`: its process; `stored`: messages of each stream that was
    filled, and what else is shown.
    """

    broker: str
    console: str
    pid: int
    stored: dict[str, int]


@asynccontextmanager
async def a_stage(data: ConsoleData) -> AsyncIterator[Stage]:
    with Broker() as broker, serve_router("--nats-url", broker.url, "--http-port", "0") as served:
        stored = await fill(broker.url, data)
        with (
            a_warehouse_of(data) as warehouse,
            a_console_process(broker.url, served.ready["http"], warehouse) as (pid, address),
        ):
            await _wait_for_signs(broker.url, address, data)
            yield Stage(
                broker.url,
                address,
                pid,
                stored | {"workers": data.workers, "providers": data.providers * len(TENANTS)},
            )


async def fill(url: str, data: ConsoleData) -> dict[str, int]:
    settings = load(None, {"nats.url": url}, {}).settings
    connection = await connect_by(settings.nats)
    jetstream = JetStream(connection)
    await fill_console(jetstream, settings, data)
    await store_figures(jetstream, settings, data.providers)
    buckets, streams = settings.buckets, settings.streams
    names = (
        streams.dlq.name,
        streams.violations.name,
        f"KV_{buckets.policies.name}",
        f"KV_{buckets.assignments_known.name}",
    )
    found = {name: await jetstream.stream(name) for name in names}
    await connection.close()
    return {
        name: info["state"]["messages"] if info is not None else 0 for name, info in found.items()
    }


@contextmanager
def a_warehouse_of(data: ConsoleData) -> Iterator[str]:
    """The directory of its usage tables."""
    with tempfile.TemporaryDirectory(prefix="router-console-") as directory:
        write_usage(Path(directory), data.usage_days)
        yield directory


async def _wait_for_signs(url: str, console: str, data: ConsoleData) -> None:
    """Heartbeats are heard by who listens already, so they are sent until the console has all."""
    connection = await connect_by(load(None, {"nats.url": url}, {}).settings.nats)

    async def has_all() -> bool:
        await send_heartbeats(JetStream(connection), data.workers)
        return (
            await _count(client, "/workers") >= data.workers
            and await _count(client, "/extensions/providers") >= data.providers
        )

    async with httpx2.AsyncClient(timeout=60, base_url=console) as client:
        await until(
            has_all,
            within_s=120,
            what="the console has heard every worker, and the router read the figures",
        )
    await connection.close()


async def _count(client: httpx2.AsyncClient, path: str) -> int:
    response = await client.get(path, params={"format": "json"})
    return len(response.json()) if response.status_code == 200 else -1


@contextmanager
def a_console_process(url: str, metrics: str, warehouse: str) -> Iterator[tuple[int, str]]:
    """Its pid and its address, without a slash at its end."""
    command = [*COMMAND, "console", "--nats-url", url, "--http-port", "0", "--metrics", metrics]
    environ = clean_environment({"ROUTER_CONSOLE__WAREHOUSE": warehouse})
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ
    )
    try:
        assert process.stdout is not None
        yield process.pid, json.loads(process.stdout.readline())["http"].rstrip("/")
    finally:
        process.terminate()
        process.communicate()


@asynccontextmanager
async def requests(url: str) -> AsyncIterator[None]:
    """Requests, some of which are refused, as long as the block lasts."""
    async with beside(_send_requests(url)):
        yield


async def _send_requests(url: str) -> None:
    async with Client(url) as client:
        for number in range(100_000_000):
            policy = "nowhere" if number % 31 == 0 else "default"
            with suppress(Exception):
                await client.decide(
                    tenant_id=TENANTS[number % 3],
                    message_type="chat",
                    payload={"text": "hello"},
                    policy_id=policy,
                )
            await asyncio.sleep(PAUSE_S)
