"""A broker for one side of one round, with the router's own streams and consumers on it for the
side that is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

from bench.question import Broken
from bench.ways import ALWAYS, current
from router.config import Settings, load
from router.core.errors import BrokerUnavailable
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.operate.topology.declared_topology import declare_topology
from router.process.embedded import MAX_BUFFERED, EmbeddedServer

PATIENCE = 12  # trials, each of five seconds
POLICIES = Path(__file__).parent / "policies"


Given = Mapping[str, object]  # settings by their dotted names
NOTHING: Given = {}
Counts = Mapping[str, int]
Find = Callable[[JetStream], Awaitable[Counts]]
SETTLED: Counts = {"not delivered": 0, "not acknowledged": 0}


def settings(url: str, given: Given = NOTHING) -> Settings:
    """The defaults and what is given, whatever the environment says but for the run's way."""
    own = {"nats.url": url, "http.port": 0, "replicas": current().replicas}
    return load(None, {**own, **given}, {}).settings


def decide_subscription(url: str) -> dict[str, str]:
    """What a yardstick, which knows nothing of settings, must know of the decide consumer."""
    config = settings(url)
    return {
        "subject": config.decide.subject,
        "stream": config.streams.decide.name,
        "durable": config.decide.durable,
    }


@contextlib.asynccontextmanager
async def a_broker(given: Given = NOTHING) -> AsyncIterator[str]:
    """A fresh nats-server on a free port, its store gone afterwards: no side inherits what another
    left in it. Three of them, where the run's way says so.
    """
    if current().replicas > 1:
        async with _three_servers(given) as url:
            yield url
        return
    with tempfile.TemporaryDirectory(prefix="router-bench-") as store:
        async with a_broker_in(Path(store), given) as url:
            yield url


@contextlib.asynccontextmanager
async def a_broker_in(store: Path, given: Given = NOTHING) -> AsyncIterator[str]:
    """The same with its store in a directory, which stays."""
    server = EmbeddedServer(store, syncs_always=current().sync == ALWAYS)
    url = await server.start()
    try:
        await _make_streams(url, given)
        yield url
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def _three_servers(given: Given) -> AsyncIterator[str]:
    """A cluster; the URL is its first server's."""
    # here, so that no side's process has it in its memory
    from tests.support.cluster import started_cluster, wait_for_cluster

    is_synced = current().sync == ALWAYS
    with started_cluster(sync_always=is_synced, max_buffered=MAX_BUFFERED) as cluster:
        await wait_for_cluster(cluster)
        url = cluster.servers[0].url
        await _make_streams_in_time(url, given)
        yield url


async def _make_streams_in_time(url: str, given: Given) -> None:
    """Each stream elects a leader first, which takes its time on a busy machine."""
    for _ in range(PATIENCE):
        with contextlib.suppress(BrokerUnavailable):
            return await _make_streams(url, given)
    raise Broken(f"three servers made no streams in {PATIENCE} trials")


async def _make_streams(url: str, given: Given) -> None:
    async with jetstream_on(url) as jetstream:
        await topology.create(jetstream, declare_topology(settings(url, given)))


@contextlib.asynccontextmanager
async def jetstream_on(url: str) -> AsyncIterator[JetStream]:
    connection = await connect({"servers": [url]})
    try:
        yield JetStream(connection)
    finally:
        await connection.close()


async def check_counts(url: str, find: Find, wanted: Counts) -> None:
    """Broken unless the counts become as wanted within two seconds: a rate of work that was not
    done is none.
    """
    async with jetstream_on(url) as jetstream:
        for _ in range(40):
            counts = await find(jetstream)
            if counts == wanted:
                return
            await asyncio.sleep(0.05)
    raise Broken(
        ", ".join(
            f"{what}: {counts[what]}, not {number}"
            for what, number in wanted.items()
            if counts[what] != number
        )
    )


async def nothing_is_left(url: str, stored: int) -> None:
    """Broken unless every request was stored, delivered and acknowledged."""
    config = settings(url)

    async def find(jetstream: JetStream) -> Counts:
        info = await jetstream.consumer(config.streams.decide.name, config.decide.durable) or {}
        return {
            **count_unsettled(info),
            "requests acknowledged": min(stored, info["ack_floor"]["stream_seq"]),
        }

    await check_counts(url, find, {**SETTLED, "requests acknowledged": stored})


def count_unsettled(info: Mapping[str, int]) -> dict[str, int]:
    """Of a consumer's state."""
    return {"not delivered": info["num_pending"], "not acknowledged": info["num_ack_pending"]}
