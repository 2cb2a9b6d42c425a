"""Extensions on plain nats-py, without the SDK, and a router that has them in its registry."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from router.config import Settings
from router.extensions.model import subject_of
from tests.support.policy import a_document
from tests.support.registry import an_entry
from tests.support.service import Running, a_router, settings_for

Answer = Callable[[Msg], Awaitable[None]]


class PipelinePlace(NamedTuple):
    """Where a test's router lives: its server, its names, its files."""

    nats_url: str
    prefix: str
    home: Path


class Extension:
    """One service; `answer` may be changed while it runs."""

    def __init__(self, nc: Client, kind: str, name: str, answer: Answer) -> None:
        self._nc = nc
        self.subject = subject_of(kind, name, "v1")
        self.answer = answer
        self.asked: list[Msg] = []
        self.at: list[float] = []  # when each was asked, on the loop's clock
        self._subscription: Subscription | None = None

    async def start(self) -> "Extension":
        self._subscription = await self._nc.subscribe(self.subject, queue="q", cb=self._hear)
        await self._nc.flush()
        return self

    async def stop(self) -> None:
        assert self._subscription is not None
        await self._subscription.unsubscribe()
        await self._nc.flush()

    async def _hear(self, message: Msg) -> None:
        self.asked.append(message)
        self.at.append(asyncio.get_running_loop().time())
        await self.answer(message)


async def passes(message: Msg) -> None:
    await message.respond(b'{"status":"ok"}')


async def rejects(message: Msg) -> None:
    await message.respond(
        b'{"status":"reject","reason":"pii_detected","details":{"pattern":"credit_card"}}'
    )


async def hangs(_: Msg) -> None: ...


async def breaks(message: Msg) -> None:
    headers = {"Nats-Service-Error-Code": "500", "Nats-Service-Error": "oops"}
    await message._client.publish(message.reply, b"", headers=headers)


def answers(data: bytes) -> Answer:
    return lambda message: message.respond(data)


async def lowers(message: Msg) -> None:
    body = json.loads(message.data)
    text = {**body["payload"], "payload": body["payload"]["payload"].lower()}
    await message.respond(
        json.dumps({"payload": text, "metadata": {"normalized": "true"}}).encode()
    )


async def marks(message: Msg) -> None:
    body = json.loads(message.data)
    decided = body["metadata"]["decision"]["provider_id"]
    await message.respond(
        json.dumps({"payload": body["payload"], "metadata": {"marked": decided}}).encode()
    )


@asynccontextmanager
async def a_pipeline(
    at: PipelinePlace,
    entries: Mapping[str, Mapping[str, Any]],
    policies: Mapping[str, Mapping[str, Any]],
    **more: object,
) -> AsyncIterator[tuple[Running, Settings]]:
    """A router with these registry entries (by id: kind and fields) and these policies of the
    tenant acme (by id: sections).
    """
    extensions, policy_files = at.home / "extensions", at.home / "policies" / "acme"
    extensions.mkdir()
    policy_files.mkdir(parents=True)
    for name, fields in entries.items():
        (extensions / f"{name}.json").write_text(json.dumps(an_entry(name, **fields)))
    for name, sections in policies.items():
        (policy_files / f"{name}.json").write_text(json.dumps(a_document(**sections)))
    # a busy server may tell of a request's inbox long after the request is answered
    patient = {"reply__inbox_wait_ms": 10_000}
    settings = settings_for(
        at.nats_url, at.prefix, **{"extensions__dir": str(extensions), **patient, **more}
    )
    async with a_router(settings, at.home / "policies") as router:
        yield router, settings
