"""An `AckedPublisher` for callers without a subscription, such as commands; it expires effects by
itself.

async with open_publisher(jetstream) as publisher:
    result = await publisher.publish_and_wait([effect])
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from router.core.errors import BrokerUnavailable
from router.delivery.publish.acked_publisher import AckedPublisher
from router.delivery.wire.api import JetStream

PUBLISH_TIMEOUT_S = 5.0  # without news of a message that was sent
EXPIRE_EVERY_S = 0.5


@asynccontextmanager
async def open_publisher(
    jetstream: JetStream, timeout_s: float = PUBLISH_TIMEOUT_S
) -> AsyncIterator[AckedPublisher]:
    """An open publisher, closed at the end."""
    publisher = AckedPublisher(jetstream, timeout_s)
    await publisher.open()
    ticking = asyncio.create_task(_tick(publisher))
    try:
        yield publisher
    finally:
        ticking.cancel()
        with suppress(BrokerUnavailable):
            await publisher.close()


async def _tick(publisher: AckedPublisher) -> None:
    while True:
        await asyncio.sleep(EXPIRE_EVERY_S)
        publisher.expire()
