"""The same request again, through whichever gateway: one call, one bill, one answer."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
import pytest
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from router.config import Settings
from router.delivery.consume import shares
from router.delivery.wire.api import JetStream
from router.gateway import kept_answers
from router.gateway.model.kept_answer import MAX_KEPT_BYTES
from tests.support.delivery import connected
from tests.support.full_stores import full_stream
from tests.support.gateway import Gateway, a_gateway, add_key, read_events, wait_for_models
from tests.support.providers import (
    Answer,
    Streaming,
    an_entry,
    echoed,
    register,
    says,
    says_no,
    serve_provider,
)
from tests.support.refusals import seal
from tests.support.router_streams import read_usage
from tests.support.service import RouterProcess, Running, a_router, names_for, settings_for
from tests.support.stories import Json, make_topology
from tests.support.waiting import slack, until

CHAT: Json = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
STREAM: Json = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
PATH = "/v1/chat/completions"
NAMES = ("openai", "anthropic")


@pytest.fixture
def settings(nats_url: str, prefix: str) -> Settings:
    return settings_for(nats_url, prefix, gateway__port=0, gateway__pages_port=0)


@pytest.fixture
async def router(settings: Settings) -> AsyncIterator[Running]:
    async with a_router(settings) as router:
        await register(router, *map(an_entry, NAMES))
        yield router


@asynccontextmanager
async def gateway_of(settings: Settings) -> AsyncIterator[Gateway]:
    async with a_gateway(settings) as gateway:
        await wait_for_models(gateway, "router/default")
        yield gateway


@pytest.fixture
async def gateway(router: Running, settings: Settings) -> AsyncIterator[Gateway]:
    async with gateway_of(settings) as gateway:
        yield gateway


@pytest.fixture
async def second(router: Running, settings: Settings) -> AsyncIterator[Gateway]:
    """Another gateway of the same keys."""
    async with gateway_of(settings) as gateway:
        yield gateway


class Provider:
    """Both candidates of the policy. `calls`: what they were asked; `answer` may be set anew."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[Msg] = []

    async def __call__(self, message: Msg) -> None:
        self.calls.append(message)
        await self.answer(message)


@asynccontextmanager
async def answered_by(nc: Nats, answer: Answer) -> AsyncIterator[Provider]:
    serving = Provider(answer)
    async with AsyncExitStack() as served:
        for name in NAMES:
            await served.enter_async_context(
                serve_provider(nc, serving, f"beamline.provider.{name}.v1")
            )
        yield serving


class Held:
    """Answers once it is let go; each answer says which one it is."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, message: Msg) -> None:
        self._count += 1
        self.begun.set()
        self._tasks.add(asyncio.create_task(self._answer(message, self._count)))

    async def _answer(self, message: Msg, number: int) -> None:
        await self.go_on.wait()
        await message.respond(echoed(message, output=f"answer {number}", cost=0.25))


async def counts(message: Msg) -> None:
    """No two answers are equal."""
    output = {"output": f"by {message.reply}"}
    await message.respond(echoed(message, cost=0.25, **output))


async def streams(message: Msg) -> None:
    for text in ("1 ", f"by {message.reply} ", "3 "):
        await message.respond(json.dumps({"data": text, "done": False}).encode())
    told = {"prompt_tokens": 4, "completion_tokens": 3, "cost": 0.5}
    await message.respond(json.dumps({"data": "", "done": True, "metadata": told}).encode())


async def breaks(message: Msg) -> None:
    await message.respond(json.dumps({"data": "1 ", "done": False}).encode())
    await says_no(500)(message)


def told(response: httpx2.Response) -> dict[str, str]:
    return {name: text for name, text in response.headers.items() if name.startswith("x-router-")}


def code_of(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def until_metered(nc: Nats, settings: Settings, count: int) -> None:
    async def is_metered() -> bool:
        return len(await read_usage(nc, settings)) == count

    await until(is_metered)


async def test_equal_requests_at_once_through_two_gateways_are_one_call_and_one_bill(
    nc: Nats, gateway: Gateway, second: Gateway, settings: Settings
) -> None:
    held = Held()
    async with answered_by(nc, held) as serving:
        asking = [
            asyncio.create_task(each.post(PATH, CHAT, idempotency_key="k-1"))
            for each in (gateway, second) * 4
        ]
        await held.begun.wait()
        held.go_on.set()
        responses = await asyncio.gather(*asking)
        responses.append(await second.post(PATH, CHAT, idempotency_key="k-1"))
    assert {response.status_code for response in responses} == {200}
    assert len({response.content for response in responses}) == 1
    assert len(serving.calls) == 1
    repeated = [told(response).pop("x-router-repeated", "") for response in responses]
    assert sorted(repeated) == ["", *["true"] * 8]
    first = told(responses[repeated.index("")])
    assert first["x-router-cost"] == "0.25"
    assert all(
        told(response) in (first, {**first, "x-router-repeated": "true"}) for response in responses
    )
    (event,) = await read_usage(nc, settings)
    assert event["request_id"] == first["x-router-request-id"]


async def test_a_stream_is_repeated_as_it_was_sent(
    nc: Nats, gateway: Gateway, second: Gateway, settings: Settings
) -> None:
    async with answered_by(nc, streams) as serving:
        responses = await asyncio.gather(
            *(each.post(PATH, STREAM, idempotency_key="k-1") for each in (gateway, second) * 3)
        )
    assert len(serving.calls) == 1
    assert len({response.content for response in responses}) == 1
    for response in responses:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert read_events(response.text)[-1] == "[DONE]"
    await until_metered(nc, settings, 1)


async def test_a_clients_request_id_is_its_identity_too(nc: Nats, gateway: Gateway) -> None:
    async with answered_by(nc, counts) as serving:
        first = await gateway.post(PATH, CHAT, x_router_request_id="r-1")
        again = await gateway.post(PATH, CHAT, x_router_request_id="r-1")
        by_key = await gateway.post(PATH, CHAT, idempotency_key="r-1")
    assert first.headers["x-router-request-id"] == "r-1"
    assert (again.content, by_key.content) == (first.content, first.content)
    assert len(serving.calls) == 1


async def test_without_a_name_nothing_is_kept(
    nc: Nats, gateway: Gateway, settings: Settings
) -> None:
    async with answered_by(nc, counts) as serving:
        for _ in range(2):
            assert "x-router-repeated" not in (await gateway.post(PATH, CHAT)).headers
    assert len(serving.calls) == 2
    info = await nc.jsm().stream_info(f"KV_{settings.buckets.gateway_answers.name}")
    assert info.state.last_seq == 0


async def test_the_same_key_with_another_body_is_refused(
    nc: Nats, gateway: Gateway, second: Gateway
) -> None:
    async with answered_by(nc, counts) as serving:
        await gateway.post(PATH, CHAT, idempotency_key="k-1")
        other = await second.post(PATH, {**CHAT, "seed": 7}, idempotency_key="k-1")
        no_key = await second.post(PATH, CHAT, idempotency_key="k 1")
    for refused in (other, no_key):
        assert code_of(refused) == (400, "invalid_request")
        assert refused.json()["error"]["param"] == "Idempotency-Key"
    assert len(serving.calls) == 1


async def test_the_same_key_of_another_tenant_is_another_request(
    nc: Nats, gateway: Gateway, settings: Settings
) -> None:
    async with answered_by(nc, counts) as serving:
        first = await gateway.post(PATH, CHAT, idempotency_key="k-1")
        gateway.key = await add_key(settings, "other")
        await wait_for_models(gateway, "router/default")
        other = await gateway.post(PATH, CHAT, idempotency_key="k-1")
    assert (other.status_code, "x-router-repeated" in other.headers) == (200, False)
    assert other.content != first.content
    assert len(serving.calls) == 2


async def test_a_refusal_is_forgotten_and_may_be_asked_again(nc: Nats, gateway: Gateway) -> None:
    async with answered_by(nc, says_no(400)) as serving:
        refused = await gateway.post(PATH, CHAT, idempotency_key="k-1")
        serving.answer = counts
        answered = await gateway.post(PATH, CHAT, idempotency_key="k-1")
    assert code_of(refused) == (400, "provider_refused")
    assert (answered.status_code, "x-router-repeated" in answered.headers) == (200, False)


async def test_a_failure_after_a_provider_was_asked_is_the_answer(
    nc: Nats, gateway: Gateway, second: Gateway
) -> None:
    async with answered_by(nc, says_no(503)) as serving:
        failed = await gateway.post(PATH, CHAT, idempotency_key="k-1")
        asked = len(serving.calls)
        serving.answer = counts
        again = await second.post(PATH, CHAT, idempotency_key="k-1")
    assert code_of(failed) == code_of(again) == (502, "provider_failed")
    assert again.headers["x-should-retry"] == "false"
    assert len(serving.calls) == asked


async def test_a_stream_that_broke_is_told_and_not_asked_again(
    nc: Nats, gateway: Gateway, second: Gateway, settings: Settings
) -> None:
    async with answered_by(nc, breaks) as serving:
        broken = await gateway.post(PATH, STREAM, idempotency_key="k-1")
        serving.answer = streams
        again = await second.post(PATH, STREAM, idempotency_key="k-1")
    assert (broken.status_code, "[DONE]" in broken.text) == (200, False)
    assert code_of(again) == (502, "stream_interrupted")
    assert again.headers["x-router-request-id"] == broken.headers["x-router-request-id"]
    assert len(serving.calls) == 1
    (event,) = await read_usage(nc, settings)
    assert float(again.headers["x-router-cost"]) == event["cost"]


async def test_a_client_that_leaves_a_stream_ends_it_and_it_stays_so(
    nc: Nats, gateway: Gateway, second: Gateway, settings: Settings
) -> None:
    endless = Streaming(nc, chunks=1_000_000, ends=False)
    async with answered_by(nc, endless) as serving:
        async with gateway.stream(PATH, STREAM, idempotency_key="k-1") as response:
            async for _ in response.aiter_lines():
                break
        async with asyncio.timeout(30 * slack()):
            await endless.gone.wait()
        again = await second.post(PATH, STREAM, idempotency_key="k-1")
    assert code_of(again) == (502, "stream_interrupted")
    assert len(serving.calls) == 1
    await until_metered(nc, settings, 1)


async def test_a_whole_answer_is_there_for_a_client_that_left_before_it(
    nc: Nats, gateway: Gateway, second: Gateway, settings: Settings
) -> None:
    held = Held()
    async with answered_by(nc, held) as serving:
        asking = asyncio.create_task(gateway.post(PATH, CHAT, idempotency_key="k-1"))
        await held.begun.wait()
        asking.cancel()
        again = asyncio.create_task(second.post(PATH, CHAT, idempotency_key="k-1"))
        await asyncio.wait({asking})
        held.go_on.set()
        answered = await again
    assert (answered.status_code, answered.headers["x-router-repeated"]) == (200, "true")
    assert "answer 1" in answered.text
    assert len(serving.calls) == 1
    await until_metered(nc, settings, 1)
    assert gateway.service._buckets is not None
    await until(lambda: not gateway.service._buckets.answers._held)  # type: ignore[union-attr]


class GatewayProcess(RouterProcess):
    command = ("router", "gateway")
    announces = "gateway.ready"


@pytest.mark.parametrize("body", [CHAT, STREAM], ids=["whole", "stream"])
async def test_a_gateway_that_is_killed_leaves_an_interrupted_request(  # noqa: PLR0917
    nc: Nats,
    second: Gateway,
    settings: Settings,
    nats_url: str,
    prefix: str,
    body: Json,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # of the gateway that waits; the other one is dead
    monkeypatch.setattr(kept_answers, "DEAD_S", 1.0)
    names = {**names_for(nats_url, prefix), "gateway.port": 0, "gateway.pages_port": 0}
    held = Held()
    async with answered_by(nc, held) as serving:
        with GatewayProcess(names, policies=None) as process:
            url = process.ready["url"].removesuffix("/v1")
            asking = asyncio.create_task(
                second.client.post(
                    url + PATH,
                    json=body,
                    headers={"authorization": f"Bearer {second.key}", "idempotency-key": "k-1"},
                )
            )
            await held.begun.wait()
            process.kill()
        with pytest.raises(httpx2.TransportError):
            await asking
        again = await second.post(PATH, body, idempotency_key="k-1")
        held.go_on.set()
        and_again = await second.post(PATH, body, idempotency_key="k-1")
    assert code_of(again) == code_of(and_again) == (502, "stream_interrupted")
    assert len(serving.calls) == 1


async def _delete(nc: Nats, stream: str) -> None:
    await nc.jsm().delete_stream(stream)


async def _seal(nc: Nats, stream: str) -> None:
    async with connected(nc.connected_url.geturl()) as connection:  # type: ignore[union-attr]
        await seal(JetStream(connection), stream)


@pytest.mark.parametrize("spoil", [_delete, _seal], ids=["missing", "sealed"])
async def test_where_no_answer_can_be_kept_nothing_is_asked(
    nc: Nats, nats_url: str, prefix: str, spoil: object
) -> None:
    # else the router makes the bucket again
    settings = settings_for(
        nats_url, prefix, gateway__port=0, gateway__pages_port=0, topology="check"
    )
    await make_topology(settings)
    async with a_router(settings) as router, AsyncExitStack() as stack:
        await register(router, *map(an_entry, NAMES))
        gateway = await stack.enter_async_context(gateway_of(settings))
        serving = await stack.enter_async_context(answered_by(nc, counts))
        await spoil(nc, f"KV_{settings.buckets.gateway_answers.name}")  # type: ignore[operator]
        refused = await gateway.post(PATH, CHAT, idempotency_key="k-1")
        assert code_of(refused) == (503, "answers_unavailable")
        assert (refused.headers["retry-after"], serving.calls) == ("1", [])
        assert (await gateway.post(PATH, CHAT)).status_code == 200


async def test_a_full_bucket_takes_no_new_request_and_ends_those_that_run(
    nc: Nats, gateway: Gateway, settings: Settings
) -> None:
    held = Held()
    stream = f"KV_{settings.buckets.gateway_answers.name}"
    async with answered_by(nc, held) as serving, full_stream(nc, stream):
        asking = asyncio.create_task(gateway.post(PATH, CHAT, idempotency_key="first"))
        await held.begun.wait()
        held.go_on.set()
        assert (await asking).status_code == 200
        for number in range(100):
            response = await gateway.post(PATH, CHAT, idempotency_key=f"k-{number}")
            if response.status_code != 200:
                break
        assert code_of(response) == (503, "answers_unavailable")
        assert len(serving.calls) == number + 1
        again = await gateway.post(PATH, CHAT, idempotency_key="k-0")
        assert again.headers["x-router-repeated"] == "true"


async def test_an_answer_that_is_too_large_is_told_and_not_asked_again(
    nc: Nats, gateway: Gateway, settings: Settings
) -> None:
    large = says(json.dumps({"output": "x" * (MAX_KEPT_BYTES + 1), "cost": 0.25}).encode())
    async with answered_by(nc, large) as serving:
        first = await gateway.post(PATH, CHAT, idempotency_key="k-1")
        again = await gateway.post(PATH, CHAT, idempotency_key="k-1")
    assert first.status_code == 200
    assert code_of(again) == (410, "answer_not_kept")
    assert again.headers["x-router-cost"] == first.headers["x-router-cost"] == "0.25"
    assert len(serving.calls) == 1


async def test_after_its_time_an_answer_is_gone(nc: Nats, nats_url: str, prefix: str) -> None:
    settings = settings_for(
        nats_url,
        prefix,
        gateway__port=0,
        gateway__pages_port=0,
        buckets__gateway_answers__ttl_ms=1_000,
    )
    async with a_router(settings) as router, answered_by(nc, counts) as serving:
        await register(router, *map(an_entry, NAMES))
        async with gateway_of(settings) as gateway:

            async def is_asked_again() -> bool:
                await gateway.post(PATH, CHAT, idempotency_key="k-1")
                return len(serving.calls) == 2

            await until(is_asked_again)


async def test_a_tenant_above_its_share_keeps_notes_and_then_nothing(
    nc: Nats, nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # it is counted when this test says so
    monkeypatch.setattr(shares, "SHARES_EVERY_S", 3_600.0)
    settings = settings_for(
        nats_url,
        prefix,
        gateway__port=0,
        gateway__pages_port=0,
        buckets__gateway_answers__max_bytes=200_000,
    )
    large = says(json.dumps({"output": "x" * 10_000, "cost": 0.25}).encode())
    async with a_router(settings) as router, AsyncExitStack() as stack:
        await register(router, *map(an_entry, NAMES))
        gateway = await stack.enter_async_context(gateway_of(settings))
        serving = await stack.enter_async_context(answered_by(nc, large))
        assert gateway.service._buckets is not None
        counting = gateway.service._buckets._shares

        async def ask(key: str) -> httpx2.Response:
            return await gateway.post(PATH, CHAT, idempotency_key=key)

        for number in range(9):
            await ask(f"k-{number}")
        await counting.look()
        assert (await ask("above")).status_code == 200
        assert code_of(await ask("above")) == (410, "answer_not_kept")
        assert (await ask("k-1")).status_code == 200
        gateway.key, of_acme = await add_key(settings, "other"), gateway.key
        await wait_for_models(gateway, "router/default")
        await ask("kept")
        assert (await ask("kept")).headers["x-router-repeated"] == "true"

        for number in range(3):
            await ask(f"k-{number}")
        await counting.look()
        gateway.key, asked = of_acme, len(serving.calls)
        for number in range(40):
            refused = await ask(f"more-{number}")
            await counting.look()
            if refused.status_code != 200:
                break
        assert code_of(refused) == (429, "overloaded")
        assert len(serving.calls) == asked + number
        assert (await ask("k-1")).headers["x-router-repeated"] == "true"
