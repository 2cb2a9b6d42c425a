"""Providers on plain nats-py, without the SDK, and their entries in a router's registry."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from router.contracts.provider_chunk import StreamChunk
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.extensions.store import ExtensionStore
from router.sdk.providers import InvocationFailed
from tests.support.delivery import connected
from tests.support.patient_client import PATIENCE_S
from tests.support.service import Running
from tests.support.waiting import until

Json = dict[str, Any]
Answer = Callable[[Msg], Awaitable[None]]

SUBJECT = "beamline.provider.echo.v1"


def an_entry(provider_id: str = "echo", **fields: Any) -> Json:
    """With time enough for a provider that answers, however busy the machine is; the product's own
    default is 5 s.
    """
    return {
        "id": provider_id,
        "type": "provider",
        "subject": f"beamline.provider.{provider_id}.v1",
        "timeout_ms": 20_000,
        **fields,
    }


async def register(router: Running, *entries: Json) -> None:
    """Write entries into the registry, and return when this router has them in force."""
    settings = router.settings
    async with connected(settings.nats.url[0]) as connection:
        store = ExtensionStore(
            DocumentBucket(
                JetStream(connection, timeout_s=PATIENCE_S), settings.buckets.extensions.name
            )
        )
        for entry in entries:
            await store.put(entry, author="test")
    ids = {entry["id"] for entry in entries}
    await until(lambda: ids <= set(_registry(router)))


def _registry(router: Running) -> Any:
    context = router.service._context
    assert context is not None
    return context.registry.get_all()


def echoed(message: Msg, **fields: Any) -> bytes:
    asked = json.loads(message.data)
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    return json.dumps(
        {
            "provider_id": asked["provider_id"],
            "output": f"you said {asked['prompt']}",
            "usage": usage,
            "metadata": {},
            **fields,
        }
    ).encode()


async def answers(message: Msg) -> None:
    """Once, whatever was asked for."""
    await message.respond(echoed(message, cost=0.25))


class NoLimits:
    """`providers.ProviderLimits` of providers that limit no tenant."""

    def find_left_ms(self, tenant_id: str, provider_id: str) -> int:
        return 0

    def observe(self, *_: object) -> None:
        """It keeps none."""


def says_no(number: int, **more: str) -> Answer:
    async def refuse(message: Msg) -> None:
        headers = {"Nats-Service-Error-Code": str(number), "Nats-Service-Error": "as told", **more}
        await message._client.publish(message.reply, b"", headers=headers)

    return refuse


def says(data: bytes) -> Answer:
    async def answer(message: Msg) -> None:
        await message.respond(data)

    return answer


async def hangs(_: Msg) -> None:
    """Hears, and never answers."""


class Streaming:
    """Sends `chunks` and then, if `ends`, a last one. Each names a reply subject; `gone` is set
    when the receiver has gone.
    """

    def __init__(self, nc: Client, chunks: int = 3, *, ends: bool = True) -> None:
        self._nc = nc
        self._chunks = chunks
        self._ends = ends
        self.gone = asyncio.Event()
        self.sent = 0

    async def __call__(self, message: Msg) -> None:
        assert message.headers is not None
        assert message.headers["Router-Stream"] == "true"
        task = asyncio.create_task(self._send(message.reply))
        self._task = task

    async def _send(self, to: str) -> None:
        inbox = self._nc.new_inbox()
        subscription = await self._nc.subscribe(inbox, cb=self._told)
        while self.sent < self._chunks and not self.gone.is_set():
            self.sent += 1
            await self._nc.publish(
                to, json.dumps({"data": f"{self.sent} ", "done": False}).encode(), reply=inbox
            )
            await self._nc.flush()
        if self._ends:
            await self._nc.publish(
                to,
                json.dumps(
                    {"data": "", "done": True, "metadata": {"completion_tokens": self.sent}}
                ).encode(),
            )
            await subscription.unsubscribe()

    async def _told(self, _: Msg) -> None:
        self.gone.set()


async def read_until_failure(
    stream: AsyncIterator[StreamChunk],
) -> tuple[list[StreamChunk], InvocationFailed]:
    """The chunks of a stream that fails, and its failure. How many come before a short timeout is
    the machine's.
    """
    chunks: list[StreamChunk] = []
    try:
        async for chunk in stream:
            chunks.append(chunk)
    except InvocationFailed as failed:
        return chunks, failed
    raise AssertionError(f"it did not fail: {chunks}")


@asynccontextmanager
async def serve_provider(
    nc: Client, answer: Answer, subject: str = SUBJECT
) -> AsyncIterator[list[Msg]]:
    """A provider; what it was asked is kept."""
    asked: list[Msg] = []

    async def hear(message: Msg) -> None:
        asked.append(message)
        await answer(message)

    subscription = await nc.subscribe(subject, queue="provider", cb=hear)
    await nc.flush()
    try:
        yield asked
    finally:
        await subscription.unsubscribe()
        await nc.flush()
