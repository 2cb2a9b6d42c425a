"""The bare yardstick of pushed requests: what the router stores of one, stored by stock nats-py as
tightly as that client allows.

    request ──> create in the bucket (expected sequence 0) ──> publish the assignment ──> reply ──> acknowledge

Each step waits for the publish ack of the one before it, by callback. It decides, validates and
retries nothing: a refusal stops it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import nats
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from bench.child import Ready
from bench.question import Broken, Measured
from bench.sides.bare import PullLoop
from bench.stretch import stretch

Step = Callable[[], Awaitable[None]]
Settle = Callable[[Msg], Awaitable[None]]
IS_FREE = {"Nats-Expected-Last-Subject-Sequence": "0"}


async def backlog(
    ready: Ready,
    *,
    url: str,
    decide: Mapping[str, str],
    bucket: str,
    subject: str,
    first: int,
    last: int,
) -> Measured:
    """Push `last` stored requests."""
    client = await nats.connect(url)
    pusher = Pusher(client, f"$KV.{bucket}", subject, f"{decide['subject']}.reply")
    loop = PullLoop(client, decide["stream"], decide["durable"], pusher.push, is_settled_later=True)
    pusher.settle = loop.settle
    await pusher.open()
    await loop.open()
    figures = await stretch(lambda: loop.done, first, last)
    await client.drain()
    return figures


class Pusher:
    """The two stored messages of each request, with at most a window of requests on their way."""

    def __init__(self, client: Client, prefix: str, subject: str, reply: str) -> None:
        self._client = client
        self._prefix = prefix
        self._subject = subject
        self._reply = reply
        self._inbox = client.new_inbox()
        self._count = 0
        self._waiting: dict[str, Step] = {}
        self.settle: Settle

    async def open(self) -> None:
        await self._client.subscribe(f"{self._inbox}.*", cb=self._on_publish_ack)

    async def push(self, msg: Msg, answer: bytes) -> None:
        number = str(msg.metadata.sequence.stream)

        async def publish_assignment() -> None:
            await self._store(self._subject, msg.data, {"Nats-Msg-Id": number}, settle)

        async def settle() -> None:
            await self._client.publish(self._reply, answer)
            await self.settle(msg)

        await self._store(f"{self._prefix}.{number}", msg.data, IS_FREE, publish_assignment)

    async def _store(self, subject: str, data: bytes, headers: dict[str, str], then: Step) -> None:
        self._count += 1
        inbox = f"{self._inbox}.{self._count}"
        self._waiting[inbox] = then
        await self._client.publish(subject, data, reply=inbox, headers=headers)

    async def _on_publish_ack(self, msg: Msg) -> None:
        if "error" in orjson.loads(msg.data):
            raise Broken(f"not stored: {msg.data!r}")
        await self._waiting.pop(msg.subject)()
