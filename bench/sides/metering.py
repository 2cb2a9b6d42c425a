"""Results turned into usage events: stored beforehand, metered by the router, and by a bare loop as
the yardstick.

The bare loop is stock nats-py. It reads nothing of a result: it publishes the bytes that it was
given, without an id, and acknowledges when the PubAck is in, with as many on their way as it has
pulled. What it costs is the floor.
"""

from __future__ import annotations

import asyncio

import nats
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from bench import requests
from bench.broker import jetstream_on, settings
from bench.child import Ready
from bench.outcomes import FORMS, as_record
from bench.question import Measured
from bench.sides.bare import EXPIRES_NS, WINDOW
from bench.sides.router import a_router
from bench.sides.store import BATCH
from bench.stretch import stretch
from router.contracts.usage import USAGE_SUBJECT
from router.delivery.wire.api import JetStream


async def fill(ready: Ready, *, url: str, count: int, form: str, is_known: bool) -> Measured:
    """Store results 0 … count - 1, and where they are to be known the assignments before them."""
    config, body = settings(url), FORMS[form]
    bucket = config.buckets.assignments_known.name
    async with jetstream_on(url) as jetstream:
        for number in range(count):
            if is_known:
                key, record = as_record(number)
                jetstream.connection.publish_nowait(f"$KV.{bucket}.{key}", record)
            jetstream.connection.publish_nowait(
                config.results.subject, body(number), "", requests.head(number)
            )
            if number % BATCH == BATCH - 1:
                await jetstream.connection.flush()
        await jetstream.connection.flush()
        await _holds(jetstream, config.streams.results.name, count)
        if is_known:
            await _holds(jetstream, f"KV_{bucket}", count)
    return {"stored": count}


async def _holds(jetstream: JetStream, stream: str, count: int) -> None:
    while ((await jetstream.stream(stream)) or {})["state"]["last_seq"] < count:  # noqa: ASYNC110 - asks the server
        await asyncio.sleep(0.002)


async def router(ready: Ready, *, url: str, first: int, last: int) -> Measured:
    """The whole router, from result `first`, when its start is over, to the last that has its ack."""
    async with a_router(url, lambda address: ready(http=address.http)) as service:
        durable = service.settings.results.durable
        return await stretch(lambda: service.metrics.acks.get((durable,), 0), first, last)


async def bare(ready: Ready, *, url: str, first: int, last: int) -> Measured:
    """The yardstick."""
    client = await nats.connect(url)
    config = settings(url)
    return await _metered(
        client,
        MeterLoop(client, config.streams.results.name, config.results.durable, USAGE_SUBJECT),
        first,
        last,
    )


async def bare_dead_letters(ready: Ready, *, url: str, first: int, last: int) -> Measured:
    """The same loop as the yardstick of dead letters: what was asked is published where the letters
    are.
    """
    client = await nats.connect(url)
    config = settings(url)
    loop = MeterLoop(
        client, config.streams.decide.name, config.decide.durable, f"{config.decide.subject}.dlq"
    )
    return await _metered(client, loop, first, last)


async def _metered(client: Client, loop: MeterLoop, first: int, last: int) -> Measured:
    await loop.open()
    figures = await stretch(lambda: loop.done, first, last)
    await client.drain()
    return figures


class MeterLoop:
    """One durable pulled, published, and acknowledged as the PubAcks come in."""

    def __init__(self, client: Client, stream: str, durable: str, subject: str) -> None:
        self._client = client
        self._subject = subject
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._inbox = client.new_inbox()
        self._publish_acks = client.new_inbox()
        # of what waits for its PubAck, by the address that it comes to
        self._tokens: dict[str, str] = {}
        self._heard = 0
        self._outstanding = 0
        self.done = 0

    async def open(self) -> None:
        await self._client.subscribe(self._inbox, cb=self._publish)
        await self._client.subscribe(f"{self._publish_acks}.*", cb=self._acknowledge)
        await self._pull(WINDOW)

    async def _pull(self, batch: int) -> None:
        self._outstanding += batch
        request = orjson.dumps({"batch": batch, "expires": EXPIRES_NS})
        await self._client.publish(self._next, request, reply=self._inbox)

    async def _publish(self, msg: Msg) -> None:
        if msg.subject == self._inbox:  # a status: the request has ended
            self._outstanding = 0
            await self._pull(WINDOW)
            return
        self._heard += 1
        publish_ack = f"{self._publish_acks}.{self._heard}"
        self._tokens[publish_ack] = msg.reply
        await self._client.publish(self._subject, msg.data, reply=publish_ack)

    async def _acknowledge(self, publish_ack: Msg) -> None:
        await self._client.publish(self._tokens.pop(publish_ack.subject))
        self.done += 1
        self._outstanding -= 1
        if self._outstanding <= WINDOW // 2:
            await self._pull(WINDOW // 2)
