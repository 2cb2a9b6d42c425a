"""A stream or a bucket refuses for good: only the message concerned is held back and told, all
others go on.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.delivery.wire.api import JetStream
from tests.support.delivery import connected
from tests.support.router_streams import (
    a_result,
    publish_result,
    read_assignments,
    read_usage,
    results_are_settled,
)
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import (
    a_request,
    ask,
    expect_others_to_be_answered,
    is_ready,
    is_settled,
    make_topology,
    read_dead_letters,
    read_metric,
    says_that_others_go_on,
)
from tests.support.waiting import until

MANY = 13
LARGE = "x" * 20_000

Break = Callable[[Client, str], Awaitable[None]]


async def seal(nc: Client, stream: str) -> None:
    await change(nc, stream, sealed=True)


async def take_subject_off(nc: Client, stream: str) -> None:
    await change(nc, stream, subjects=[f"nothing.of.{stream}"])


async def delete(nc: Client, stream: str) -> None:
    await nc.jsm().delete_stream(stream)


async def change(nc: Client, stream: str, **fields: object) -> None:
    async with connected(nc.connected_url.geturl() if nc.connected_url else "") as connection:
        jetstream = JetStream(connection)
        info = await jetstream.stream(stream)
        assert info is not None
        await jetstream.ask(f"STREAM.UPDATE.{stream}", {**info["config"], **fields})


def _settings(nats_url: str, prefix: str, **more: object) -> Settings:
    given = {"effects__retry_ms": 50, "effects__patience_ms": 500, "topology": "check", **more}
    return settings_for(nats_url, prefix, **given)


def _error(answer: dict[str, Any]) -> tuple[str, str]:
    return answer["error"]["code"], answer["error"]["details"]["cause"]


def a_large_push(name: str) -> bytes:
    body = json.loads(a_request(name, push_assignment=True))
    body["message"]["payload"] = LARGE
    return json.dumps(body).encode()


@pytest.mark.parametrize("spoil", [seal, take_subject_off, delete])
async def test_a_push_that_its_stream_refuses_is_told_and_no_other_waits(
    nc: Client, nats_url: str, prefix: str, spoil: Break
) -> None:
    settings = _settings(nats_url, prefix)
    await make_topology(settings)
    async with a_router(settings) as router:
        await spoil(nc, settings.streams.assignments.name)
        pushed = asyncio.create_task(ask(nc, settings, a_request("push", push_assignment=True)))
        await _expect_others_to_be_answered(nc, settings, router)
        assert _error(await pushed) == ("cannot_be_stored", "stream_refuses")
        [letter] = await read_dead_letters(nc, settings)
        assert (letter["reason"], letter["last_error"]["code"]) == (
            "processing_error",
            "stream_refuses",
        )
        await until(lambda: is_settled(nc, settings))
        await until(lambda: is_ready(router.ready.http))


@pytest.mark.parametrize("spoil", [seal, delete])
async def test_a_push_whose_bucket_refuses_is_told_and_no_other_waits(
    nc: Client, nats_url: str, prefix: str, spoil: Break
) -> None:
    settings = _settings(nats_url, prefix)
    await make_topology(settings)
    async with a_router(settings) as router:
        await spoil(nc, f"KV_{settings.buckets.assignments_known.name}")
        pushed = [
            asyncio.create_task(
                ask(nc, settings, a_request(f"push-{number}", push_assignment=True))
            )
            for number in range(3)
        ]
        await _expect_others_to_be_answered(nc, settings, router)
        assert {_error(await one) for one in pushed} == {("cannot_be_stored", "bucket_refuses")}
        assert len(await read_dead_letters(nc, settings)) == len(pushed)
        await until(lambda: is_settled(nc, settings))


async def test_a_push_above_the_size_of_its_stream_is_told_at_once(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = _settings(nats_url, prefix)
    await make_topology(settings)
    async with a_router(settings) as router:
        await change(nc, settings.streams.assignments.name, max_msg_size=10_000)
        assert _error(await ask(nc, settings, a_large_push("push"))) == (
            "cannot_be_stored",
            "too_large",
        )
        [letter] = await read_dead_letters(nc, settings)
        assert letter["last_error"]["code"] == "too_large"
        assert await is_ready(router.ready.http)
        assert (await ask(nc, settings, a_request("small", push_assignment=True)))["ok"]
        assert [one["request_id"] for one in await read_assignments(nc, settings)] == ["r-small"]


async def test_a_push_above_the_size_of_its_bucket_is_told_at_once(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = _settings(nats_url, prefix)
    await make_topology(settings)
    async with a_router(settings) as router:
        await change(nc, f"KV_{settings.buckets.assignments_known.name}", max_msg_size=10_000)
        assert _error(await ask(nc, settings, a_large_push("push"))) == (
            "cannot_be_stored",
            "too_large",
        )
        assert len(await read_dead_letters(nc, settings)) == 1
        assert await is_ready(router.ready.http)


async def test_a_dead_letter_above_the_size_of_its_stream_loses_its_payload(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = _settings(nats_url, prefix)
    await make_topology(settings)
    async with a_router(settings) as router:
        await change(nc, settings.streams.dlq.name, max_msg_size=10_000)
        answer = await ask(nc, settings, b"not a request" + LARGE.encode())
        assert answer["error"]["code"] == "invalid_request"
        [letter] = await read_dead_letters(nc, settings)
        assert (letter["payload_truncated"], letter["original_payload_bytes"]) == (
            True,
            len(LARGE) + 13,
        )
        assert await is_ready(router.ready.http)


async def test_a_dead_letter_that_its_stream_never_takes_is_left_out(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = _settings(nats_url, prefix)
    await make_topology(settings)
    async with a_router(settings) as router:
        await change(nc, settings.streams.dlq.name, max_msg_size=100)
        assert (await ask(nc, settings, b"not a request"))["error"]["code"] == "invalid_request"
        await until(lambda: is_settled(nc, settings))
        durable = settings.decide.durable
        assert (
            await read_metric(
                router.ready.http,
                "router_storage_refused_total",
                consumer=durable,
                what="dead_letter_omitted",
            )
            == 1
        )


@pytest.mark.parametrize("spoil", [seal, delete])
async def test_results_wait_for_a_usage_stream_that_refuses_and_requests_go_on(
    nc: Client, nats_url: str, prefix: str, spoil: Break
) -> None:
    settings = _settings(nats_url, prefix)
    await make_topology(settings)
    async with a_router(settings) as router:
        await spoil(nc, settings.streams.usage.name)
        await publish_result(nc, settings, a_result("billed"))
        await _expect_others_to_be_answered(nc, settings, router)
        assert (await ask(nc, settings, a_request("push", push_assignment=True)))["ok"]
        await _remake(nc, settings, settings.streams.usage.name)
        await until(lambda: results_are_settled(nc, settings))
        assert len(await read_usage(nc, settings)) == 1


@pytest.mark.parametrize("spoil", [seal, delete])
async def test_results_whose_assignment_is_in_memory_are_metered_while_its_bucket_refuses(
    nc: Client, nats_url: str, prefix: str, spoil: Break
) -> None:
    """A bucket that is sealed can be read, so nothing waits there; one that is missing holds back
    what must be read from it.
    """
    settings = _settings(nats_url, prefix)
    await make_topology(settings)
    async with a_router(settings) as router:
        assert (await ask(nc, settings, a_request("known", push_assignment=True)))["ok"]
        [known] = await read_assignments(nc, settings)
        await spoil(nc, f"KV_{settings.buckets.assignments_known.name}")
        await publish_result(nc, settings, a_result("unknown"))
        if spoil is delete:
            await until(
                lambda: says_that_others_go_on(router.ready.http), what="a result that waits"
            )
        fields = {name: known[name] for name in ("assignment_id", "request_id", "tenant_id")}
        await publish_result(
            nc, settings, a_result("known", **fields, provider_id=known["decision"]["provider_id"])
        )
        await until(lambda: _is_metered(nc, settings, known["assignment_id"]))
        await _remake(nc, settings, f"KV_{settings.buckets.assignments_known.name}")
        await until(lambda: results_are_settled(nc, settings))
        await until(lambda: is_ready(router.ready.http))


async def _is_metered(nc: Client, settings: Settings, assignment_id: str) -> bool:
    return assignment_id in [event["assignment_id"] for event in await read_usage(nc, settings)]


async def _remake(nc: Client, settings: Settings, stream: str) -> None:
    if await _exists(nc, stream):
        await delete(nc, stream)
    await make_topology(settings)


async def _exists(nc: Client, stream: str) -> bool:
    return stream in [one.config.name for one in await nc.jsm().streams_info()]


async def _expect_others_to_be_answered(nc: Client, settings: Settings, router: Running) -> None:
    """Once one message waits, as /readyz says, the plain requests are answered."""
    await until(lambda: says_that_others_go_on(router.ready.http), what="a message that waits")
    await expect_others_to_be_answered(nc, settings, MANY)
