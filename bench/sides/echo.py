"""The latency yardstick: a core NATS echo. Nothing is stored, read or decided; what was sent comes
back.
"""

from __future__ import annotations

from collections.abc import Mapping

import nats
from nats.aio.msg import Msg

from bench.child import Ready
from bench.question import Measured
from bench.stretch import stretch
from router.delivery.wire.first_connection import connect


async def stock(ready: Ready, *, url: str, subject: str, first: int, last: int) -> Measured:
    """By nats-py as it comes."""
    client = await nats.connect(url)
    done = 0

    async def echo(msg: Msg) -> None:
        nonlocal done
        await client.publish(msg.reply, msg.data)
        done += 1

    await client.subscribe(subject, cb=echo)
    await client.flush()
    ready()
    figures = await stretch(lambda: done, first, last)
    await client.drain()
    return figures


async def direct(ready: Ready, *, url: str, subject: str, first: int, last: int) -> Measured:
    """By the router's connection class: no queue and no task between the socket and the answer."""
    connection = await connect({"servers": [url]})
    done = 0

    def echo(_subject: str, reply: str, data: bytes, _headers: Mapping[str, str] | None) -> None:
        nonlocal done
        connection.publish_nowait(reply, data)
        done += 1

    await connection.subscribe_direct(subject, echo)
    await connection.flush()
    ready()
    figures = await stretch(lambda: done, first, last)
    await connection.close()
    return figures
