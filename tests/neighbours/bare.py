"""A bare program in the router's place: `python -m tests.neighbours.bare`. What the quiet tenant waits here, the machine makes it wait.

Stock nats-py hears the decide subject, reads which request it is and answers at once: no policy, no validation, no tenant, no stream
that it reads. The server has the router's own streams, so it stores every request as it would beside a router.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import nats
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from bench.broker import jetstream_on, settings
from router.app.declared_topology import declare_topology
from router.delivery import topology
from router.operations.embedded import EmbeddedServer
from tests.neighbours.asking import DECIDE, PROVIDERS


async def serve(store: Path) -> None:
    """Answers until a signal comes. The first line says where, as the router's does."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with _a_server(store) as url:
        client = await nats.connect(url)
        await client.subscribe(DECIDE, cb=_make_answer(client))
        await client.flush()
        print(json.dumps({"nats_url": url, "http": ""}), flush=True)
        await stopped.wait()
        await client.close()


@contextlib.asynccontextmanager
async def _a_server(store: Path) -> AsyncIterator[str]:
    server = EmbeddedServer(store)
    url = await server.start()
    try:
        async with jetstream_on(url) as jetstream:
            await topology.create(jetstream, declare_topology(settings(url)))
        yield url
    finally:
        await server.stop()


def _make_answer(client: Client) -> Callable[[Msg], Awaitable[None]]:
    async def answer(message: Msg) -> None:
        if message.reply:
            decided = {"ok": True, "request_id": orjson.loads(message.data)["request_id"], "decision": {"provider_id": PROVIDERS[0]}}
            await client.publish(message.reply, orjson.dumps(decided))

    return answer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.neighbours.bare", description=__doc__.partition("\n")[0])
    parser.add_argument("--store", type=Path, required=True)
    known, _ = parser.parse_known_args()  # of the router's own options it needs no other
    asyncio.run(serve(known.store))


if __name__ == "__main__":
    main()
