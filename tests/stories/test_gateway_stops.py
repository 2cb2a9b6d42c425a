"""A gateway that stops, or loses its broker, while clients wait: each hears how it ended."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from nats.aio.client import Client as Nats

from router.config import Settings
from tests.support.broker import Broker
from tests.support.gateway import GatewayProcess, add_key, read_events
from tests.support.providers import Streaming, an_entry, hangs, register, serve_provider
from tests.support.service import Running, a_router, names_for, settings_for
from tests.support.stories import Json, read_page
from tests.support.waiting import slack, until

BODY: Json = {"model": "router/default", "messages": [{"role": "user", "content": "hello"}]}
DRAIN_MS = 1_000


@pytest.fixture
def names(broker: Broker, prefix: str) -> dict[str, object]:
    return {**names_for(broker.url, prefix), "gateway.drain_ms": DRAIN_MS}


@pytest.fixture
def settings(broker: Broker, prefix: str) -> Settings:
    return settings_for(broker.url, prefix)


@pytest.fixture
async def router(settings: Settings) -> AsyncIterator[Running]:
    async with a_router(settings) as router:
        await register(router, an_entry("openai"))
        yield router


@pytest.fixture
def gateway(router: Running, names: dict[str, object]) -> Iterator[GatewayProcess]:
    assert router
    with GatewayProcess(names) as gateway:
        yield gateway


@pytest.fixture
async def client(gateway: GatewayProcess, settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"authorization": f"Bearer {await add_key(settings, 'acme')}"}
    url = gateway.ready["url"]
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=60 * slack()) as client:
        await until(lambda: _is_known(client))
        yield client


async def _is_known(client: httpx2.AsyncClient) -> bool:
    return (await client.get("/models/router/default")).status_code == 200


@asynccontextmanager
async def an_open_stream(client: httpx2.AsyncClient) -> AsyncIterator[AsyncIterator[str]]:
    """Its lines; the first one has come."""
    async with client.stream("POST", "/chat/completions", json={**BODY, "stream": True}) as answer:
        lines = answer.aiter_lines()
        assert (await anext(lines)).startswith("data: ")
        yield lines


async def read_error(lines: AsyncIterator[str]) -> str:
    """The code of the last event."""
    *_, last = read_events("\n".join([line async for line in lines]))
    return str(json.loads(last)["error"]["code"])


async def test_a_gateway_that_stops_lets_streams_go_on_and_then_ends_them_with_an_error(
    nc: Nats, client: httpx2.AsyncClient, gateway: GatewayProcess
) -> None:
    endless = Streaming(nc, chunks=1_000_000, ends=False)
    subject = "beamline.provider.openai.v1"
    async with serve_provider(nc, endless, subject), an_open_stream(client) as lines:
        stopped = asyncio.create_task(asyncio.to_thread(gateway.terminate))
        await until(lambda: _is_closed(gateway.ready["url"]))
        for _ in range(10):
            await anext(lines)
        assert await read_error(lines) == "stream_interrupted"
        await endless.gone.wait()
        assert await stopped == 0


async def _is_closed(url: str) -> bool:
    try:
        async with httpx2.AsyncClient() as other:
            await other.get(f"{url}/models")
    except httpx2.TransportError:
        return True
    return False


async def test_a_gateway_that_stops_says_so_to_who_waits_for_an_answer(
    nc: Nats, client: httpx2.AsyncClient, gateway: GatewayProcess
) -> None:
    async with serve_provider(nc, hangs, "beamline.provider.openai.v1") as asked:
        asking = asyncio.create_task(client.post("/chat/completions", json=BODY))
        await until(lambda: asked)
        assert await asyncio.to_thread(gateway.terminate) == 0
        answer = await asking
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "router_unavailable")


async def test_without_its_broker_each_client_is_told_and_it_is_not_ready(
    nc: Nats, client: httpx2.AsyncClient, gateway: GatewayProcess, broker: Broker
) -> None:
    endless = Streaming(nc, chunks=1_000_000, ends=False)
    async with serve_provider(nc, endless, "beamline.provider.openai.v1"):
        async with an_open_stream(client) as lines:
            broker.kill()
            assert await read_error(lines) == "router_unavailable"
        assert (await read_page(gateway.ready["http"], "/readyz"))[0] == 503
        broker.start()
        await until(lambda: _is_ready(gateway), within_s=30)


async def _is_ready(gateway: GatewayProcess) -> bool:
    return (await read_page(gateway.ready["http"], "/readyz"))[0] == 200
