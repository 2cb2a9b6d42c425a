"""A bare program in the router's place: `python -m tests.rigs.neighbours.bare`.

What the quiet tenant waits here, the machine makes it wait. Stock nats-py hears the decide subject,
reads which request it is and answers at once: no policy, no validation, no tenant, no stream that
it reads. The server has the router's own streams, so it stores every request as it would beside a
router.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import nats
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from bench.broker import a_broker_in
from tests.rigs.neighbours.asking import DECIDE, PROVIDERS


async def serve(store: Path) -> None:
    """Answer until this process is killed. The first line says where, as the router's does."""
    async with a_broker_in(store) as url:
        client = await nats.connect(url)
        await client.subscribe(DECIDE, cb=_make_answer(client))
        await client.flush()
        print(json.dumps({"nats_url": url, "http": ""}), flush=True)
        await asyncio.Event().wait()


def _make_answer(client: Client) -> Callable[[Msg], Awaitable[None]]:
    async def answer(message: Msg) -> None:
        if message.reply:
            decided = {
                "ok": True,
                "request_id": orjson.loads(message.data)["request_id"],
                "decision": {"provider_id": PROVIDERS[0]},
            }
            await client.publish(message.reply, orjson.dumps(decided))

    return answer


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.neighbours.bare", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--store", type=Path, required=True)
    known, _ = parser.parse_known_args()  # of the router's own options it needs no other
    asyncio.run(serve(known.store))


if __name__ == "__main__":
    main()
