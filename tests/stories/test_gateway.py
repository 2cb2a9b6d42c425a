"""An HTTP client of the gateway, from its key to the provider's answer."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from router.budgets.model import parse_budget
from router.budgets.store import BudgetStore
from router.config import Settings
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.sdk.extension import Invocation, Request, pre, provider
from tests.support.delivery import connected
from tests.support.deployed_tls import certificates
from tests.support.extension_author import serve_extension
from tests.support.gateway import (
    Gateway,
    a_gateway,
    add_key,
    open_keys,
    read_events,
    wait_for_models,
)
from tests.support.patient_client import PATIENCE_S
from tests.support.policy_buckets import store_of
from tests.support.providers import (
    Answer,
    Streaming,
    an_entry,
    answers,
    register,
    says,
    says_no,
    serve_provider,
)
from tests.support.router_streams import read_usage
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Json
from tests.support.waiting import slack, until

CHAT: Json = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
PATH = "/v1/chat/completions"
NAMES = ("openai", "anthropic")
WHOLE = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "good day"}}],
}


@pytest.fixture
def settings(nats_url: str, prefix: str) -> Settings:
    return settings_for(nats_url, prefix, gateway__port=0, gateway__pages_port=0)


@pytest.fixture
async def router(settings: Settings) -> AsyncIterator[Running]:
    async with a_router(settings) as router:
        await register(router, *map(an_entry, NAMES))
        yield router


@pytest.fixture
async def gateway(router: Running, settings: Settings) -> AsyncIterator[Gateway]:
    async with a_gateway(settings) as gateway:
        await wait_for_models(gateway, "router/default")
        yield gateway


@asynccontextmanager
async def both(nc: Nats, answer: Answer) -> AsyncIterator[list[Msg]]:
    """Both candidates of the policy answer so; what they were asked."""
    async with AsyncExitStack() as served:
        asked = [
            await served.enter_async_context(
                serve_provider(nc, answer, f"beamline.provider.{name}.v1")
            )
            for name in NAMES
        ]
        heard: list[Msg] = []
        yield heard
        heard.extend(message for messages in asked for message in messages)


def has_events(nc: Nats, settings: Settings, count: int) -> object:
    async def look() -> bool:
        return len(await read_usage(nc, settings)) == count

    return look


async def test_a_chat_is_answered_by_the_policys_provider_and_metered_once(
    nc: Nats, gateway: Gateway, settings: Settings
) -> None:
    async with both(nc, answers) as asked:
        response = await gateway.post(PATH, CHAT)
    answer, told = response.json(), response.headers
    assert response.status_code == 200, response.text
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "you said hello"}
    assert answer["usage"]["total_tokens"] == 5
    assert (told["x-router-attempts"], told["x-router-cost"]) == ("1", "0.25")
    assert told["x-router-policy"].startswith("default@")
    (event,) = await read_usage(nc, settings)
    (heard,) = asked
    assert event["request_id"] == told["x-router-request-id"]
    assert event["provider_id"] == told["x-router-provider"]
    assert json.loads(heard.data)["prompt"] == "hello"


async def streams(message: Msg) -> None:
    for text in ("1 ", "2 ", "3 "):
        await message.respond(json.dumps({"data": text, "done": False}).encode())
    told = {"prompt_tokens": 4, "completion_tokens": 3, "cost": 0.5}
    await message.respond(json.dumps({"data": "", "done": True, "metadata": told}).encode())


async def test_a_stream_is_server_sent_events_up_to_done(nc: Nats, gateway: Gateway) -> None:
    body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    async with both(nc, streams), gateway.stream(PATH, body) as response:
        text = (await response.aread()).decode()
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, usage, done = read_events(text)
    pieces = [json.loads(event)["choices"][0] for event in events]
    assert done == "[DONE]"
    assert "".join(piece["delta"].get("content", "") for piece in pieces) == "1 2 3 "
    assert pieces[0]["delta"]["role"] == "assistant"
    assert [piece["finish_reason"] for piece in pieces] == [None, None, None, "stop"]
    assert json.loads(usage)["choices"] == []
    told = json.loads(usage)["usage"]
    assert (told["prompt_tokens"], told["completion_tokens"], told["router_cost"]) == (4, 3, "0.5")


async def test_a_service_that_understands_the_api_gets_the_body_and_answers_it(
    nc: Nats, gateway: Gateway, router: Running
) -> None:
    spoken = {"apis": ["chat.completions"], "models": ["gpt-4o", "gpt-4o-mini"]}
    await register(router, *(an_entry(name, metadata=spoken) for name in NAMES))
    await wait_for_models(gateway, "gpt-4o-mini")
    asked_for = {**CHAT, "model": "gpt-4o-mini", "tools": [{"type": "function"}], "seed": 7}
    async with both(nc, says(json.dumps({"output": WHOLE}).encode())) as asked:
        response = await gateway.post(PATH, asked_for)
    (heard,) = asked
    call = json.loads(heard.data)
    assert response.json() == WHOLE
    assert call["parameters"] == {"api": "chat.completions", "stream": False}
    assert json.loads(call["prompt"]) == asked_for


async def test_a_model_that_no_candidate_has_is_not_found(gateway: Gateway) -> None:
    response = await gateway.post(PATH, {**CHAT, "model": "gpt-9"})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")
    assert response.json()["error"]["param"] == "model"


@pytest.fixture
async def redacted(gateway: Gateway, router: Running, settings: Settings) -> None:
    """A policy whose requests pass a redactor that must not fail."""
    redactor = {"id": "redact", "type": "pre", "subject": "beamline.ext.pre.redact.v1"}
    await register(router, {**redactor, "timeout_ms": 20_000})
    document = {
        "version": "1.0",
        "providers": [{"name": name, "weight": 50} for name in NAMES],
        "pre": [{"id": "redact", "mode": "required"}],
    }
    async with store_of(settings) as store:
        data = json.dumps(document).encode()
        await store.put("acme", "redacted", data, replaces=None, author="test")
    await wait_for_models(gateway, "router/redacted")


@pytest.mark.usefixtures("redacted")
async def test_a_provider_gets_what_the_pre_processors_left(
    nc: Nats, gateway: Gateway, settings: Settings
) -> None:
    @pre("redact")
    def redact(request: Request) -> object:
        return json.loads(json.dumps(request.payload).replace("4711", "****"))

    secret = {"model": "router/redacted", "messages": [{"role": "user", "content": "pin 4711"}]}
    async with serve_extension(settings.nats.url[0], redact), both(nc, answers) as asked:
        for is_stream in (False, True):
            assert (await gateway.post(PATH, {**secret, "stream": is_stream})).status_code == 200
    assert [json.loads(call.data)["prompt"] for call in asked] == ["pin ****"] * 2
    assert not any(b"4711" in call.data for call in asked)


@pytest.mark.usefixtures("redacted")
async def test_with_a_required_redactor_down_no_provider_is_asked(
    nc: Nats, gateway: Gateway
) -> None:
    async with both(nc, answers) as asked:
        response = await gateway.post(PATH, {**CHAT, "model": "router/redacted"})
    assert (response.status_code, response.json()["error"]["code"]) == (502, "pre_processor_failed")
    assert asked == []


async def test_a_provider_that_fails_before_its_first_byte_is_left_for_the_next(
    nc: Nats, gateway: Gateway, settings: Settings
) -> None:
    """Each is one event of its own: the first reached its provider, too."""
    tried: list[str] = []

    async def fail_once(message: Msg) -> None:
        tried.append(json.loads(message.data)["provider_id"])
        await (says_no(503) if len(tried) == 1 else answers)(message)

    async with both(nc, fail_once):
        response = await gateway.post(PATH, CHAT)
    assert (response.status_code, response.headers["x-router-attempts"]) == (200, "2")
    assert sorted(tried) == sorted(NAMES)
    assert response.headers["x-router-provider"] == tried[1]
    events = await read_usage(nc, settings)
    first = response.headers["x-router-request-id"]
    assert {event["request_id"] for event in events} == {first, f"{first}~2"}


async def test_where_all_fail_the_client_hears_how_the_last_one_did(
    nc: Nats, gateway: Gateway
) -> None:
    async with both(nc, says_no(429, **{"Router-Retry-After-Ms": "7000"})) as asked:
        response = await gateway.post(PATH, CHAT)
    assert response.status_code == 429
    assert response.json()["error"]["code"] == "provider_rate_limited"
    assert 1 <= int(response.headers["retry-after"]) <= 7
    assert len(asked) == 2
    failovers = gateway.service.metrics.gateway_failovers
    assert sum(failovers.values()) == 1, "no attempt followed the last one"


async def test_a_request_that_any_provider_would_refuse_is_sent_once(
    nc: Nats, gateway: Gateway
) -> None:
    async with both(nc, says_no(400)) as asked:
        response = await gateway.post(PATH, CHAT)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "provider_refused")
    assert len(asked) == 1


async def test_a_budget_is_spent_by_what_was_used_not_by_decisions(
    nc: Nats, gateway: Gateway, router: Running, settings: Settings
) -> None:
    """A decision expects 0.012 or 0.015, an invocation reserves 0.01 until its event is booked."""
    budget = parse_budget({"amount": "0.2", "window": "day"}, "acme")
    async with connected(settings.nats.url[0]) as connection:
        jetstream = JetStream(connection, timeout_s=PATIENCE_S)
        store = BudgetStore(DocumentBucket(jetstream, settings.buckets.budgets.name))
        await store.put(budget, author="test")
    context = router.service._context
    assert context is not None
    await until(lambda: "acme" in context.budgets.table.tenants)
    free = says(json.dumps({"output": "free", "cost": 0.0}).encode())
    async with both(nc, free):
        answered = [await gateway.post(PATH, CHAT) for _ in range(12)]
    assert {response.status_code for response in answered} == {200}
    async with both(nc, says(json.dumps({"output": "dear", "cost": 1.0}).encode())):
        assert (await gateway.post(PATH, CHAT)).status_code == 200

    async def is_spent() -> bool:
        return (await gateway.post(PATH, CHAT)).status_code == 402

    async with both(nc, free):
        await until(is_spent)


async def test_a_client_that_leaves_ends_the_stream_at_its_source_and_is_metered(
    nc: Nats, gateway: Gateway, settings: Settings
) -> None:
    endless = Streaming(nc, chunks=1_000_000, ends=False)
    async with both(nc, endless):
        async with gateway.stream(PATH, {**CHAT, "stream": True}) as response:
            async for _ in response.aiter_lines():
                break
        async with asyncio.timeout(30 * slack()):
            await endless.gone.wait()
        await until(has_events(nc, settings, 1))
    (event,) = await read_usage(nc, settings)
    assert event["status"] == "cancelled"


async def test_a_client_that_leaves_before_an_answer_ends_it_at_its_source(
    nc: Nats, gateway: Gateway, settings: Settings
) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def think(_: Invocation) -> AsyncIterator[str]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        yield "never"

    services = [provider(name)(think) for name in NAMES]
    async with serve_extension(settings.nats.url[0], *services):
        asking = asyncio.create_task(gateway.post(PATH, CHAT))
        await until(lambda: begun.is_set() or asking.done())
        asking.cancel()
        await until(stopped.is_set)
        await until(has_events(nc, settings, 1))
    (event,) = await read_usage(nc, settings)
    assert event["status"] == "cancelled"


async def test_a_stream_that_breaks_ends_with_an_error_and_without_done(
    nc: Nats, gateway: Gateway
) -> None:
    async def breaks(message: Msg) -> None:
        await message.respond(json.dumps({"data": "1 ", "done": False}).encode())
        await says_no(500)(message)

    body = {**CHAT, "stream": True}
    async with both(nc, breaks) as asked, gateway.stream(PATH, body) as response:
        events = read_events((await response.aread()).decode())
    assert (response.status_code, len(asked)) == (200, 1)
    assert json.loads(events[-1])["error"]["code"] == "provider_failed"
    assert "[DONE]" not in events


async def test_with_a_certificate_it_speaks_tls(
    router: Running, nats_url: str, prefix: str, tmp_path: Path
) -> None:
    certificates(tmp_path)
    files = {"cert": tmp_path / "server.pem", "key": tmp_path / "server.key"}
    tls = {f"gateway__tls_{name}": str(file) for name, file in files.items()}
    ports = {"gateway__port": 0, "gateway__pages_port": 0}
    trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    async with (
        a_gateway(settings_for(nats_url, prefix, **ports, **tls)) as gateway,
        httpx2.AsyncClient(verify=trusted) as client,
    ):
        assert gateway.url.startswith("https://")
        answer = await client.get(
            f"{gateway.url}/v1/models", headers={"authorization": f"Bearer {gateway.key}"}
        )
    assert answer.status_code == 200


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer rk_0f3a9c21b7d4_00", "Basic YTpi"])
async def test_without_a_valid_key_nothing_is_read(gateway: Gateway, given: str) -> None:
    response = await gateway.post(PATH, b"x" * 2_000_000, authorization=given)
    assert (response.status_code, response.json()["error"]["code"]) == (401, "invalid_api_key")


async def test_a_key_that_is_revoked_is_refused_within_a_second(
    gateway: Gateway, settings: Settings
) -> None:
    async with open_keys(settings) as store:
        await store.delete(gateway.key.split("_")[1])

    async def is_refused() -> bool:
        return (await gateway.get("/v1/models")).status_code == 401

    await until(is_refused, within_s=1.0)


async def test_a_key_may_name_its_own_policies_alone(gateway: Gateway, settings: Settings) -> None:
    gateway.key = await add_key(settings, "acme", policies=("fast",))
    await wait_for_models(gateway, "router/fast")
    refused = await gateway.post(PATH, {**CHAT, "model": "router/default"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    names = [model["id"] for model in (await gateway.get("/v1/models")).json()["data"]]
    assert "router/default" not in names


async def test_a_decision_alone_is_the_routers_own_answer(gateway: Gateway) -> None:
    asked = {"message": {"message_type": "chat", "payload": "hello"}, "request_id": "r-1"}
    path = "/api/v1/routes/decide"
    decided = await gateway.post(path, asked)
    assert (decided.status_code, decided.json()["decision"]["provider_id"] in NAMES) == (200, True)
    unknown = await gateway.post(path, {**asked, "request_id": "r-2", "policy_id": "none"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "policy_not_found")
    foreign = await gateway.post(path, {**asked, "tenant_id": "other"})
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, "forbidden")


async def test_a_decision_is_found_again_by_its_own_tenant(
    gateway: Gateway, settings: Settings
) -> None:
    asked = {"message": {"message_type": "chat", "payload": "hello"}, "request_id": "r-9"}
    decided = await gateway.post("/api/v1/routes/decide", asked)
    found = await gateway.get("/api/v1/routes/decide/r-9")
    assert found.json()["decision"]["provider_id"] == decided.json()["decision"]["provider_id"]
    gateway.key = await add_key(settings, "other")
    await wait_for_models(gateway, "router/default")
    foreign = await gateway.get("/api/v1/routes/decide/r-9")
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (404, "decision_not_found")


async def test_services_of_the_router_answer_for_the_keys_tenant(gateway: Gateway) -> None:
    health = await gateway.get("/api/v1/extensions/health")
    breakers = await gateway.get("/api/v1/extensions/breakers")
    complexity = await gateway.get("/api/v1/policies/default/complexity")
    tried = await gateway.post("/api/v1/policies/default/dry-run", {"payload": "hello"})
    unknown = await gateway.get("/api/v1/policies/none/complexity")
    assert set(health.json()["health"]) == set(NAMES)
    assert breakers.json()["providers"] == {}
    assert complexity.json()["complexity_level"] == "low"
    assert tried.json()["result"]["decision"]["provider_id"] in NAMES
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "policy_not_found")


async def test_a_message_into_the_system_is_acknowledged(
    nats_url: str, prefix: str, nc: Nats
) -> None:
    ports = {"gateway__port": 0, "gateway__pages_port": 0, "ingress__enabled": True}
    settings = settings_for(nats_url, prefix, **ports)
    message = {"message_id": "m-1", "message_type": "chat", "payload": "hello"}
    async with a_router(settings), a_gateway(settings) as gateway:
        taken = await gateway.post("/api/v1/messages", message)
        foreign = await gateway.post("/api/v1/messages", {**message, "tenant_id": "other"})
        wrong = await gateway.post("/api/v1/messages", {"message_id": "m-2"})
    assert (taken.status_code, taken.json()["status"]) == (202, "accepted")
    assert foreign.status_code == 403
    assert (wrong.status_code, wrong.json()["status"]) == (400, "rejected")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", PATH, 405, "method_not_allowed"),
        ("GET", "/v1/models/gpt-9", 404, "model_not_found"),
    ],
)
async def test_every_error_has_openais_shape(
    gateway: Gateway, method: str, path: str, status: int, code: str
) -> None:
    response = await gateway.client.request(
        method, gateway.url + path, headers={"authorization": f"Bearer {gateway.key}"}
    )
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
