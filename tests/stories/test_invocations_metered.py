"""Each invocation of a provider is metered once, also a stream that either side cuts; what cannot
be metered is not given out.
"""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from router import Client
from router.contracts.provider import INVOKE
from router.contracts.usage import identity_of
from router.sdk.providers import InvocationFailed
from tests.support.providers import (
    Answer,
    Streaming,
    an_entry,
    answers,
    hangs,
    read_until_failure,
    register,
    says_no,
    serve_provider,
)
from tests.support.router_streams import read_stream, read_usage
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Json
from tests.support.waiting import until

ASKED: Json = {"tenant_id": "acme", "provider_id": "echo", "prompt": "hello"}
BRIEF: Json = {**ASKED, "provider_id": "hasty"}  # to a provider that is given a second
HASTY = "beamline.provider.hasty.v1"


@pytest.fixture
async def router(nats_url: str, prefix: str) -> AsyncIterator[Running]:
    async with a_router(settings_for(nats_url, prefix)) as router:
        await register(
            router,
            an_entry(),
            an_entry("patient", timeout_ms=30_000),
            an_entry("hasty", timeout_ms=1_000),
        )
        yield router


class PricedStream:
    """Two chunks that say what they have cost so far, and nothing more, or a last one."""

    def __init__(self, nc: Nats, *, ends: bool) -> None:
        self._nc = nc
        self._ends = ends

    async def __call__(self, message: Msg) -> None:
        for cost in (0.1, 0.2):
            await self._nc.publish(
                message.reply,
                json.dumps({"data": "x", "done": False, "metadata": {"cost": cost}}).encode(),
            )
        if self._ends:
            await self._nc.publish(
                message.reply,
                json.dumps({"data": "", "done": True, "metadata": {"cost": "0.5"}}).encode(),
            )


async def read_one(nc: Nats, router: Running) -> Json:
    await until(lambda: _count(nc, router, 1), what="a usage event")
    (event,) = await read_usage(nc, router.settings)
    return event


async def _count(nc: Nats, router: Running, count: int) -> bool:
    return len(await read_usage(nc, router.settings)) == count


async def test_an_answer_is_metered_before_it_goes_out(
    nc: Nats, router: Running, client: Client
) -> None:
    async with serve_provider(nc, answers):
        response = await client.invoke(**ASKED, request_id="r-1", trace_id="t-1")
    assert response.ok
    (event,) = await read_usage(nc, router.settings)  # at once
    told = {
        "tenant_id": "acme",
        "provider_id": "echo",
        "event_type": "provider.invoke",
        "cost": 0.25,
        "status": "success",
    }
    assert event | told | {"trace_id": "t-1", "request_id": "r-1"} == event
    assert "assignment_id" not in event
    ((_, _, headers),) = await read_stream(nc, router.settings.streams.usage.name)
    assert headers["Nats-Msg-Id"] == event["event_id"] != identity_of("acme", "r-1", "success")


@pytest.mark.parametrize(("answer", "status"), [(says_no(400), "error"), (says_no(503), "error")])
async def test_what_fails_at_the_provider_is_metered_too(
    nc: Nats, router: Running, client: Client, answer: Answer, status: str
) -> None:
    async with serve_provider(nc, answer):
        assert (await client.invoke(**ASKED)).status == status
    event = await read_one(nc, router)
    assert (event["status"], event["cost"]) == (status, 0.0)


async def test_what_a_provider_does_not_answer_is_metered_too(
    nc: Nats, router: Running, client: Client
) -> None:
    async with serve_provider(nc, hangs, HASTY):
        assert (await client.invoke(**BRIEF)).status == "timeout"
    event = await read_one(nc, router)
    assert (event["status"], event["cost"]) == ("timeout", 0.0)


async def test_what_reaches_no_provider_is_not(nc: Nats, router: Running, client: Client) -> None:
    await client.invoke(**ASKED)  # none listens
    await client.invoke(**{**ASKED, "provider_id": "unknown"})
    await nc.request(INVOKE, b"{}", timeout=60)
    with pytest.raises(InvocationFailed):
        [_ async for _ in client.invoke_stream(**ASKED)]
    assert await read_usage(nc, router.settings) == []


async def test_an_invocation_that_one_attempt_brought_to_its_provider_is_metered(
    nc: Nats, router: Running, client: Client
) -> None:
    await register(router, an_entry("leaving", timeout_ms=1_000, retry=1))
    heard = await nc.subscribe("beamline.provider.leaving.v1")
    # the server hands it one request, and has no responder for the next
    await heard.unsubscribe(limit=1)
    await nc.flush()
    assert (
        await client.invoke(**{**ASKED, "provider_id": "leaving"})
    ).error_code == "extension_unavailable"
    event = await read_one(nc, router)  # of the attempt that reached it
    assert (event["status"], event["cost"]) == ("timeout", 0.0)


async def test_a_stream_is_metered_before_its_last_chunk_goes_out(
    nc: Nats, router: Running, client: Client
) -> None:
    async with serve_provider(nc, PricedStream(nc, ends=True)):
        async for chunk in client.invoke_stream(**ASKED, request_id="r-1"):
            if chunk.done:
                assert len(await read_usage(nc, router.settings)) == 1
    (event,) = await read_usage(nc, router.settings)
    assert (event["event_type"], event["status"], event["cost"], event["request_id"]) == (
        "provider.invoke.stream",
        "success",
        0.5,
        "r-1",
    )


async def test_a_stream_whose_provider_stops_in_between_is_metered_by_what_was_received(
    nc: Nats, router: Running, client: Client
) -> None:
    async with serve_provider(nc, PricedStream(nc, ends=False), HASTY):
        chunks, _ = await read_until_failure(client.invoke_stream(**BRIEF))
    costs = [0.0, *(float(chunk.metadata["cost"]) for chunk in chunks)]
    (event,) = await read_usage(nc, router.settings)
    assert costs == [0.0, 0.1, 0.2][: len(costs)]
    assert (event["status"], event["cost"]) == ("timeout", costs[-1])


async def test_a_stream_whose_reader_leaves_is_metered_by_what_was_received(
    nc: Nats, router: Running, client: Client
) -> None:
    source = Streaming(nc, 1_000_000)
    async with serve_provider(nc, source):
        async for _ in client.invoke_stream(**ASKED, request_id="r-1"):
            break
        await asyncio.wait_for(source.gone.wait(), 60)
    event = await read_one(nc, router)
    assert (event["status"], event["request_id"], event["cost"]) == ("cancelled", "r-1", 0.0)


async def test_a_stream_that_a_stopping_router_cuts_off_ends_with_its_code_and_is_metered(
    nc: Nats, router: Running, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.work.invocations.provider_server.DRAIN_S", 0.0)
    chunks = client.invoke_stream(**{**ASKED, "provider_id": "patient"})
    async with serve_provider(nc, PricedStream(nc, ends=False), "beamline.provider.patient.v1"):
        for _ in range(2):
            await anext(chunks)
        await router.stop()
        with pytest.raises(InvocationFailed, match="stopping"):
            await anext(chunks)
    (event,) = await read_usage(nc, router.settings)
    assert (event["status"], event["cost"]) == ("cancelled", 0.2)


async def test_what_cannot_be_metered_is_not_given_out_and_reaches_the_provider_once(
    nc: Nats, router: Running, client: Client
) -> None:
    jsm = nc.jsm()
    stream = (await jsm.stream_info(router.settings.streams.usage.name)).config
    stream.max_msgs = 1
    await jsm.update_stream(stream)
    async with serve_provider(nc, answers) as asked:
        assert (await client.invoke(**ASKED)).ok
        told = await client.invoke(**ASKED)
        assert (told.status, told.error_code, told.body) == ("error", "internal", "")
        assert len(asked) == 2

        async def is_refused_unasked() -> bool:
            """By the pause after what could not be metered. Where it is over already, the provider
            is asked, and it begins again.
            """
            before = len(asked)
            is_refused = (await client.invoke(**ASKED)).error_code == "overloaded"
            assert len(asked) == before + (not is_refused)
            return is_refused

        async def is_stream_refused_unasked() -> bool:
            before = len(asked)
            _, failure = await read_until_failure(client.invoke_stream(**ASKED))
            is_refused = "overloaded" in str(failure)
            assert len(asked) == before + (not is_refused)
            return is_refused

        await until(is_refused_unasked)
        await until(is_stream_refused_unasked)
        await jsm.purge_stream(stream.name)

        async def is_served() -> bool:
            return (await client.invoke(**ASKED)).ok

        await until(is_served, what="invocations are served again")


async def test_a_router_that_meters_nothing_answers_all_the_same(
    nc: Nats, nats_url: str, prefix: str
) -> None:
    async with (
        a_router(settings_for(nats_url, prefix, usage__enabled=False)) as router,
        Client(nats_url) as client,
    ):
        await register(router, an_entry())
        async with serve_provider(nc, answers):
            assert (await client.invoke(**ASKED)).ok
        assert await read_usage(nc, router.settings) == []
