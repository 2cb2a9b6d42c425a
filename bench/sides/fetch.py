"""The yardstick as nats-py's documentation writes a worker: `fetch` a batch, answer and acknowledge
each message of it.
"""

from __future__ import annotations

import asyncio

import nats
import orjson

from bench.child import Ready
from bench.question import Measured
from bench.requests import answer_fields
from bench.stretch import stretch

BATCH = 256
EXPIRES_S = 2.0


async def backlog(
    ready: Ready, *, url: str, subject: str, stream: str, durable: str, last: int
) -> Measured:
    """Answer `last` stored requests on the reply subject."""
    client = await nats.connect(url)
    jetstream = client.jetstream()
    pulling = await jetstream.pull_subscribe_bind(durable, stream)
    done = 0

    async def work() -> None:
        nonlocal done
        while done < last:
            for message in await pulling.fetch(BATCH, timeout=EXPIRES_S):
                asked = orjson.loads(message.data)
                answer = answer_fields(asked["request_id"], (message.headers or {})["trace_id"])
                await client.publish(f"{subject}.reply", orjson.dumps(answer))
                await message.ack()
                done += 1

    figures, _ = await asyncio.gather(stretch(lambda: done, 1, last), work())
    await client.drain()
    return figures
