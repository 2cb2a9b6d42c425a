"""Extensions of the SDK, served on a real server, and a client that calls them as a router does."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from router.delivery.wire.connection import Connection
from router.sdk.extension import Extension, ExtensionServer
from tests.support.delivery import connected

Json = dict[str, Any]


def a_request(payload: object = "hello", **fields: Any) -> Json:
    """A whole request to a pre-processor, validator or post-processor."""
    return {
        "trace_id": "t-1",
        "tenant_id": "acme",
        "payload": {
            "message_id": "m-1",
            "message_type": "chat",
            "payload": payload,
            "metadata": {},
        },
        "metadata": {"policy_id": "default"},
        "config": {},
        **fields,
    }


def a_prompt(prompt: object = "hello", **fields: Any) -> Json:
    """A whole request to a provider."""
    told = {
        "trace_id": "t-1",
        "tenant_id": "acme",
        "provider_id": "mine",
        "prompt": prompt,
        "parameters": {},
        "context": {},
    }
    return {**told, **fields}


def data_of(body: Json) -> bytes:
    return json.dumps(body).encode()


class ExtensionAnswer:
    """One answer: what it says, or the error in its headers."""

    def __init__(self, data: bytes, headers: Mapping[str, str]) -> None:
        self.body: Json = json.loads(data) if data else {}
        self.code = headers.get("Nats-Service-Error-Code")
        self.error: Json = self.body.get("error", {})


class ExtensionClient:
    """A connection of a test's own."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def ask(
        self, subject: str, body: Json | bytes, headers: Mapping[str, str] | None = None
    ) -> ExtensionAnswer:
        data = body if isinstance(body, bytes) else data_of(body)
        answer = await self.connection.request(
            subject, data, timeout=30, headers=dict(headers or {}) or None
        )
        return ExtensionAnswer(answer.data, answer.headers or {})

    async def service(self, verb: str, name: str) -> Json:
        """What `$SRV.{verb}.{name}` says."""
        answer = await self.connection.request(f"$SRV.{verb}.{name}", b"", timeout=30)
        return json.loads(answer.data)  # type: ignore[no-any-return]


@asynccontextmanager
async def an_extension_client(url: str) -> AsyncIterator[ExtensionClient]:
    async with connected(url) as connection:
        yield ExtensionClient(connection)


@asynccontextmanager
async def serve_extension(
    url: str, *extensions: Extension, **settings: Any
) -> AsyncIterator["asyncio.Task[None]"]:
    """The server's task, once its subjects are listened on; cancelled and ended in the end."""
    ready = asyncio.Event()
    task = asyncio.create_task(
        ExtensionServer(*extensions, nats=url, **settings).run(lambda _: ready.set())
    )
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        if task.done():
            await task
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def an_id(name: str = "ext") -> str:
    """An id that no other test has: they share a server."""
    return f"{name}_{uuid.uuid4().hex[:8]}"
