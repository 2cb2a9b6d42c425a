"""A gateway in this process, keys in its bucket, and an HTTP client that has one."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import orjson

from router.config import Settings
from router.core.clock import now_ms
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.gateway.keys.model.api_key import make_key
from router.gateway.keys.store import KeyStore
from router.gateway.server import GatewayService
from tests.support.beside import beside
from tests.support.delivery import connected
from tests.support.patient_client import PATIENCE_S
from tests.support.service import RouterProcess
from tests.support.waiting import slack, until

Json = dict[str, Any]


class Gateway:
    """A running gateway; `url` has no slash at its end, `key` is a key of its tenant."""

    def __init__(self, service: GatewayService, key: str, client: httpx2.AsyncClient) -> None:
        self.service = service
        self.url = service.url
        self.key = key
        self.client = client

    async def post(self, path: str, body: Json | bytes, **headers: str) -> httpx2.Response:
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        return await self.client.post(self.url + path, content=data, headers=self._add(headers))

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.client.get(self.url + path, headers=self._add(headers))

    @asynccontextmanager
    async def stream(self, path: str, body: Json, **headers: str) -> AsyncIterator[httpx2.Response]:
        async with self.client.stream(
            "POST", self.url + path, content=orjson.dumps(body), headers=self._add(headers)
        ) as response:
            yield response

    def _add(self, headers: dict[str, str]) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return {"authorization": f"Bearer {self.key}", **named}


@asynccontextmanager
async def a_gateway(settings: Settings, tenant_id: str = "acme") -> AsyncIterator[Gateway]:
    """Beside a router of the same settings."""
    key = await add_key(settings, tenant_id)
    service = GatewayService(settings)
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with (
        beside(service.run(lambda *_: None if ready.done() else ready.set_result(None))) as task,
        httpx2.AsyncClient(timeout=60 * slack()) as client,
    ):
        await asyncio.wait({ready, task}, timeout=60 * slack(), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        assert ready.done(), f"not ready: {service.readiness()}"
        yield Gateway(service, key, client)


async def add_key(settings: Settings, tenant_id: str, **rights: Any) -> str:
    """A key in the bucket, as text."""
    made = make_key(tenant_id, now_ms(), **rights)
    async with open_keys(settings) as store:
        await store.put(made.key, author="test", replaces=0)
    return made.text


@asynccontextmanager
async def open_keys(settings: Settings) -> AsyncIterator[KeyStore]:
    async with connected(settings.nats.url[0]) as connection:
        jetstream = JetStream(connection, timeout_s=PATIENCE_S)
        yield KeyStore(DocumentBucket(jetstream, settings.buckets.keys.name))


async def wait_for_models(gateway: Gateway, *names: str) -> None:
    """Until the gateway has the policies and entries that make these models."""

    async def has_models() -> bool:
        response = await gateway.get("/v1/models")
        return set(names) <= {model["id"] for model in response.json()["data"]}

    await until(has_models)


async def wait_for_provider(gateway: Gateway, provider_id: str) -> None:
    """Until the gateway has its entry."""
    buckets = gateway.service._buckets
    assert buckets is not None
    await until(lambda: provider_id in buckets.registry.get_all())


def read_events(text: str) -> list[str]:
    """The data of each server-sent event, by the rules of the standard: comments are none."""
    blocks = text.replace("\r\n", "\n").split("\n\n")
    lines = [
        [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        for block in blocks
    ]
    return ["\n".join(parts) for parts in lines if parts]


class GatewayProcess(RouterProcess):
    """`router gateway` as a process of its own."""

    command = ("router", "gateway")
    announces = "gateway.ready"

    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__({**settings, "gateway.port": 0, "gateway.pages_port": 0}, policies=None)

    def read_memory(self) -> int:
        """Bytes that are resident."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        (line,) = [line for line in lines if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024
