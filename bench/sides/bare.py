"""The bare yardstick: stock nats-py and a pull loop on a callback subscription, written as tightly
as that client allows.

It parses, builds an answer, replies and acknowledges, and that is all: no policy, no validation, no
retry, no dead letter, no metrics, and a malformed header would stop it for good. What it costs is
the floor under any Python router on this client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import nats
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from bench.broker import settings
from bench.child import Ready
from bench.question import Measured
from bench.requests import answer_fields
from bench.stretch import stretch

WINDOW = 512  # as many as the router asks for
EXPIRES_NS = 30_000_000_000

Answer = Callable[[Msg, bytes], Awaitable[None]]


class PullLoop:
    """One durable pulled and answered. `answer` sends what was built; with `is_settled_later` it
    sees to `settle` too.
    """

    def __init__(
        self,
        client: Client,
        stream: str,
        durable: str,
        answer: Answer,
        *,
        is_settled_later: bool = False,
    ) -> None:
        self._client = client
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._inbox = client.new_inbox()
        self._answer = answer
        self._is_settled_later = is_settled_later
        self._outstanding = 0
        self.done = 0

    async def open(self) -> None:
        await self._client.subscribe(self._inbox, cb=self._heard)
        await self._pull(WINDOW)

    async def _pull(self, batch: int) -> None:
        self._outstanding += batch
        request = orjson.dumps({"batch": batch, "expires": EXPIRES_NS})
        await self._client.publish(self._next, request, reply=self._inbox)

    async def _heard(self, msg: Msg) -> None:
        if msg.subject == self._inbox:  # a status: the request has ended
            self._outstanding = 0
            await self._pull(WINDOW)
            return
        asked = orjson.loads(msg.data)
        await self._answer(
            msg, orjson.dumps(answer_fields(asked["request_id"], msg.headers["trace_id"]))
        )
        if not self._is_settled_later:
            await self.settle(msg)

    async def settle(self, msg: Msg) -> None:
        await self._client.publish(msg.reply)
        self.done += 1
        self._outstanding -= 1
        if self._outstanding <= WINDOW // 2:
            await self._pull(WINDOW // 2)


async def backlog(
    ready: Ready, *, url: str, subject: str, stream: str, durable: str, last: int
) -> Measured:
    """Answer `last` stored requests on the reply subject."""
    client = await nats.connect(url)

    async def answer(_: Msg, data: bytes) -> None:
        await client.publish(f"{subject}.reply", data)

    loop = PullLoop(client, stream, durable, answer)
    await loop.open()
    figures = await stretch(lambda: loop.done, 1, last)
    await client.drain()
    return figures


async def swallow(ready: Ready, *, url: str, first: int, last: int) -> Measured:
    """Parse and ack the workers' results; no requester gets an answer."""
    config = settings(url)
    client = await nats.connect(url)
    loop = PullLoop(client, config.streams.acks.name, config.acks.durable, _say_nothing)
    await loop.open()
    figures = await stretch(lambda: loop.done, first, last)
    await client.drain()
    return figures


async def _say_nothing(_: Msg, __: bytes) -> None: ...


async def live(
    ready: Ready, *, url: str, subject: str, stream: str, durable: str, first: int, last: int
) -> Measured:
    """Answer requests from the stream to the inboxes that a listener heard asking; either half may
    come first.
    """
    client = await nats.connect(url)
    inboxes: dict[int, str] = {}
    answers: dict[int, bytes] = {}

    async def hear(msg: Msg) -> None:
        key = hash((msg.headers["Nats-Msg-Id"], msg.data))
        data = answers.pop(key, None)
        if data is None:
            inboxes[key] = msg.reply
        else:
            await client.publish(msg.reply, data)

    async def answer(msg: Msg, data: bytes) -> None:
        key = hash((msg.headers["Nats-Msg-Id"], msg.data))
        inbox = inboxes.pop(key, None)
        if inbox is None:
            answers[key] = data
        else:
            await client.publish(inbox, data)

    await client.subscribe(subject, cb=hear)
    loop = PullLoop(client, stream, durable, answer)
    await loop.open()
    await client.flush()
    ready()
    figures = await stretch(lambda: loop.done, first, last)
    await client.drain()
    return figures
