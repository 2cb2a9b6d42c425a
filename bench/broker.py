"""A broker for one side of one round, with the router's own streams and consumers on it for the side that is measured."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from bench.question import Broken
from router.app.declared_topology import declare_topology
from router.config import Settings, load
from router.delivery import topology
from router.delivery.api import JetStream
from router.delivery.connection import connect
from router.operations.embedded import EmbeddedServer

POLICIES = Path(__file__).parent / "policies"


Given = Mapping[str, object]  # settings by their dotted names
NOTHING: Given = {}


def settings(url: str, given: Given = NOTHING) -> Settings:
    """The defaults and what is given, whatever the environment says."""
    return load(None, {"nats.url": url, "http.port": 0, **given}, {}).settings


def decide_subscription(url: str) -> dict[str, str]:
    """What a yardstick, which knows nothing of settings, must know of the decide consumer."""
    config = settings(url)
    return {"subject": config.decide.subject, "stream": config.streams.decide.name, "durable": config.decide.durable}


@contextlib.asynccontextmanager
async def a_broker(given: Given = NOTHING) -> AsyncIterator[str]:
    """A fresh nats-server on a free port, its store gone afterwards: no side inherits what another left in it."""
    with tempfile.TemporaryDirectory(prefix="router-bench-") as store:
        server = EmbeddedServer(Path(store))
        url = await server.start()
        try:
            async with jetstream_on(url) as jetstream:
                await topology.create(jetstream, declare_topology(settings(url, given)))
            yield url
        finally:
            await server.stop()


@contextlib.asynccontextmanager
async def jetstream_on(url: str) -> AsyncIterator[JetStream]:
    connection = await connect({"servers": [url]})
    try:
        yield JetStream(connection)
    finally:
        await connection.close()


async def nothing_is_left(url: str, stored: int) -> None:
    """Broken unless every request was stored, delivered and acknowledged: a rate of work not done is none."""
    config = settings(url)
    async with jetstream_on(url) as jetstream:
        for _ in range(40):
            info = await jetstream.consumer(config.streams.decide.name, config.decide.durable) or {}
            left = [info[name] for name in ("num_pending", "num_ack_pending")]
            floor = info["ack_floor"]["stream_seq"]
            if left == [0, 0] and floor >= stored:
                return
            await asyncio.sleep(0.05)
    raise Broken(f"of {stored} requests, {left[0]} were not delivered, {left[1]} not acknowledged; acknowledged up to {floor}")
