"""Requests into the decide stream, by a process of their own that is never measured."""

from __future__ import annotations

import asyncio

from bench import requests
from bench.broker import jetstream_on, settings
from bench.child import Ready
from bench.question import Measured
from router.delivery.api import JetStream

BATCH = 2000  # the server drops what a stream cannot take in at once, and a `no_ack` stream does not say so


async def fill(ready: Ready, *, url: str, count: int, users: int = requests.USERS) -> Measured:
    """Store requests 0 … count - 1."""
    async with jetstream_on(url) as jetstream:
        for begin in range(0, count, BATCH):
            await _store(jetstream, url, begin, min(count, begin + BATCH), users)
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
