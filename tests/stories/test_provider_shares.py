"""Providers invoked by many: a client that holds what it can get leaves places for others, and
holds none for ever.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from nats.aio.client import Client as Nats

from router import Client
from router.contracts.provider import INVOKE_STREAM
from tests.support.providers import Streaming, an_entry, answers, hangs, register, serve_provider
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Json, MessageRecorder
from tests.support.waiting import until

PLACES, LONGEST_MS = 8, 400
PATIENT = "beamline.provider.patient.v1"
FOR_EVER = {"Router-Deadline-Ms": "900000000"}  # ten days


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def a_router_with(
    stack: AsyncExitStack, nats_url: str, prefix: str, **settings: int
) -> Running:
    router = await stack.enter_async_context(
        a_router(settings_for(nats_url, prefix, providers__at_once=PLACES, **settings))
    )
    await register(router, an_entry(), an_entry("patient", timeout_ms=10_000))
    return router


async def opens_streams(nc: Nats, count: int, tenant: str) -> MessageRecorder:
    """So many streams of a provider that does not end them; what comes back, by inbox."""
    heard = await MessageRecorder.on(nc, f"_INBOX.{tenant}.*")
    body = json.dumps({"provider_id": "patient", "tenant_id": tenant, "body": "hello"}).encode()
    for number in range(count):
        await nc.publish(INVOKE_STREAM, body, reply=f"_INBOX.{tenant}.{number}", headers=FOR_EVER)
    await nc.flush()
    return heard


def ended_by(heard: MessageRecorder) -> list[str]:
    """Why streams ended."""
    last: list[Json] = [
        chunk
        for chunks in heard.heard.values()
        for data in chunks
        if (chunk := json.loads(data))["done"]
    ]
    return [chunk["metadata"]["error_code"] for chunk in last]


async def test_one_tenants_streams_leave_places_for_the_others(
    nc: Nats, nats_url: str, prefix: str, stack: AsyncExitStack
) -> None:
    """The tenant opens three times as many streams as there is room for; it gets half, and every
    other tenant is answered.
    """
    await a_router_with(stack, nats_url, prefix)
    asked = await stack.enter_async_context(serve_provider(nc, hangs, PATIENT))
    await stack.enter_async_context(serve_provider(nc, answers))
    hog = await opens_streams(nc, 3 * PLACES, "hog")
    async with Client(nats_url) as client:
        told = [
            await client.invoke(tenant_id=f"quiet-{number}", provider_id="echo", prompt="hello")
            for number in range(4)
        ]
    assert [response.ok for response in told] == [True] * 4
    assert len(asked) == PLACES // 2
    assert ended_by(hog) == ["overloaded"] * (3 * PLACES - PLACES // 2)


async def test_a_stream_ends_in_time_whatever_its_deadline_says(
    nc: Nats, nats_url: str, prefix: str, stack: AsyncExitStack
) -> None:
    """A provider that trickles holds its place for so long, and no longer."""
    await a_router_with(stack, nats_url, prefix, providers__longest_ms=LONGEST_MS)
    trickling = Streaming(nc, chunks=1_000_000, ends=False)
    await stack.enter_async_context(serve_provider(nc, trickling, PATIENT))
    heard = await opens_streams(nc, 1, "hog")
    await until(lambda: ended_by(heard) == ["extension_timeout"])
    await asyncio.wait_for(trickling.gone.wait(), 60)
