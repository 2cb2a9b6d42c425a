"""FastStream's JetStream pull subscriber with the same work: its decoder parses, the handler builds
the answer, the publisher replies, the framework acknowledges. Logging is off, and each way fetches
in batches of the size that suits it.

    typed      as its documentation writes a handler: annotated arguments, filled in and checked
    untyped    `apply_types=False`, its fastest: the handler is given the decoded body and finds the
               rest itself
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub

from bench.child import Ready
from bench.question import Measured
from bench.requests import answer_fields
from bench.stretch import Done, stretch

Json = dict[str, Any]
TYPED_BATCH = 100  # 256 and 512 are a tenth slower here, 1 takes twice as long
UNTYPED_BATCH = 256  # 512 is no faster, 100 a sixth slower
SETTLING_S = 0.3  # it counts when the handler runs; the answer and the acknowledgement follow


async def typed(
    ready: Ready, *, url: str, subject: str, stream: str, durable: str, last: int
) -> Measured:
    """Answer `last` stored requests on the reply subject."""
    broker = NatsBroker(url, logger=None)
    done = 0

    async def handle(asked: Json, message: NatsMessage) -> bytes:
        nonlocal done
        done += 1
        return _answer(asked, message)

    pulling = PullSub(batch_size=TYPED_BATCH)
    subscribed = broker.subscriber(
        subject, stream=JStream(stream, declare=False), durable=durable, pull_sub=pulling
    )(handle)
    broker.publisher(f"{subject}.reply")(subscribed)
    return await _measured(broker, lambda: done, last)


async def untyped(
    ready: Ready, *, url: str, subject: str, stream: str, durable: str, last: int
) -> Measured:
    """The same without the framework's injection."""
    broker = NatsBroker(url, logger=None, apply_types=False)
    done = 0

    async def handle(asked: Json) -> bytes:
        nonlocal done
        done += 1
        return _answer(asked, broker.context.get_local("message"))

    pulling = PullSub(batch_size=UNTYPED_BATCH)
    subscribed = broker.subscriber(
        subject, stream=JStream(stream, declare=False), durable=durable, pull_sub=pulling
    )(handle)
    broker.publisher(f"{subject}.reply")(subscribed)
    return await _measured(broker, lambda: done, last)


async def _measured(broker: NatsBroker, done: Done, last: int) -> Measured:
    await broker.start()
    figures = await stretch(done, 1, last)
    await asyncio.sleep(SETTLING_S)
    await broker.stop()
    return figures


def _answer(asked: Json, message: NatsMessage) -> bytes:
    return orjson.dumps(answer_fields(asked["request_id"], message.headers["trace_id"]))
