"""The router, whole: RouterService as `router serve` runs it, metrics and HTTP port included."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from bench.broker import NOTHING, POLICIES, Given, settings
from bench.child import Ready
from bench.question import Measured
from bench.stretch import stretch
from router.process.observability import configure
from router.serve.service import Ready as Address
from router.serve.service import RouterService

TAKING_ACKS = {"acks.enabled": True}


async def decide(ready: Ready, *, url: str, first: int, last: int) -> Measured:
    """Serve, and measure from request `first` to request `last`."""
    async with a_router(url, lambda address: ready(http=address.http)) as service:
        return await stretch(settled(service), first, last)


async def take_acks(ready: Ready, *, url: str, first: int, last: int) -> Measured:
    """The same of workers' acknowledgements."""
    async with a_router(url, lambda address: ready(http=address.http), TAKING_ACKS) as service:
        durable = service.settings.acks.durable
        return await stretch(lambda: service.metrics.acks.get((durable,), 0), first, last)


@contextlib.asynccontextmanager
async def a_router(
    url: str, on_ready: Callable[[Address], None], given: Given = NOTHING
) -> AsyncIterator[RouterService]:
    """A running router; drained afterwards, so that the broker has every acknowledgement. If it
    ends by itself, so do we.
    """
    configure("warning")
    service = RouterService(settings(url, given), policies_dir=POLICIES)
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(service.run(on_ready))
        yield service
        serving.cancel()


def settled(service: RouterService) -> Callable[[], int]:
    """How many requests have their final ack."""
    durable = service.settings.decide.durable
    return lambda: service.metrics.acks.get((durable,), 0)
