"""Requests into the decide stream, by a process of their own that is never measured."""

from __future__ import annotations

import asyncio

from bench import requests
from bench.broker import jetstream_on, settings
from bench.child import Ready
from bench.question import Measured
from router.delivery.api import JetStream

BATCH = 2000  # the server drops what a stream cannot take in at once, and a `no_ack` stream does not say so


async def fill(ready: Ready, *, url: str, count: int) -> Measured:
    """Store requests 0 … count - 1."""
    async with jetstream_on(url) as jetstream:
        for begin in range(0, count, BATCH):
            await _store(jetstream, url, begin, min(count, begin + BATCH), requests.USERS)
    return {"stored": count}


async def feed(ready: Ready, *, url: str, count: int, backlog: int, users: int) -> Measured:
    """Store them while somebody decides, never more than `backlog` ahead, and drop what was decided; `ready` at the first wait."""
    config = settings(url)
    stream, durable = config.streams.decide.name, config.decide.durable
    async with jetstream_on(url) as jetstream:
        for begin in range(0, count, BATCH):
            end = min(count, begin + BATCH)
            await _store(jetstream, url, begin, end, users)
            if end == min(count, backlog):
                ready()
            while end - (floor := await _decided(jetstream, stream, durable)) > backlog - BATCH:  # noqa: ASYNC110 - asks the server
                await asyncio.sleep(0.01)
            if begin % (50 * BATCH) == 0:
                await jetstream.ask(f"STREAM.PURGE.{stream}", {"seq": floor + 1})
    return {"stored": count}


async def _store(jetstream: JetStream, url: str, begin: int, end: int, users: int) -> None:
    config = settings(url)
    for number in range(begin, end):
        jetstream.connection.post(config.decide.subject, requests.body(number, users), "", requests.head(number))
    await jetstream.connection.flush()
    while await _stored(jetstream, config.streams.decide.name) < end:  # noqa: ASYNC110 - asks the server
        await asyncio.sleep(0.002)


async def _stored(jetstream: JetStream, stream: str) -> int:
    info = await jetstream.stream(stream)
    return int(info["state"]["last_seq"]) if info else 0


async def _decided(jetstream: JetStream, stream: str, durable: str) -> int:
    info = await jetstream.consumer(stream, durable)
    return int(info["ack_floor"]["stream_seq"]) if info else 0
