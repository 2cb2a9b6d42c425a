"""An extension that several tenants call: one whose requests make it fail closes it to that tenant,
and to no other.
"""

import asyncio
import itertools
import json
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.contracts.provider import INVOKE, INVOKE_STREAM
from tests.support.admin import call
from tests.support.extension_pipeline import Extension, PipelinePlace, a_pipeline, breaks, passes
from tests.support.policy import a_document
from tests.support.providers import an_entry, answers, register, says_no, serve_provider
from tests.support.service import a_router, settings_for
from tests.support.stories import a_request, ask

GUARD = {"guard": {"kind": "validator", "timeout_ms": 20_000}}
POLICY = {"default": {"validators": [{"id": "guard"}]}}
TENANTS = ("spiteful", "third")


@pytest.fixture
def at(nats_url: str, prefix: str, tmp_path: Path) -> PipelinePlace:
    for tenant in TENANTS:
        shelf = tmp_path / "policies" / tenant
        shelf.mkdir(parents=True)
        (shelf / "default.json").write_text(json.dumps(a_document(**POLICY["default"])))
    return PipelinePlace(nats_url, prefix, tmp_path)


@pytest.mark.parametrize("is_burst", [False, True], ids=["one after the other", "at once"])
async def test_one_tenants_requests_that_break_an_extension_leave_it_open_to_the_others(
    nc: Client, at: PipelinePlace, is_burst: bool
) -> None:
    async def answer(message: Msg) -> None:
        await (breaks if json.loads(message.data)["tenant_id"] == "spiteful" else passes)(message)

    await Extension(nc, "validator", "guard", answer).start()
    async with a_pipeline(at, GUARD, POLICY) as (_, settings):
        spiteful = [a_request(f"s-{number}", tenant_id="spiteful") for number in range(24)]
        if is_burst:
            refused = await asyncio.gather(*(ask(nc, settings, body) for body in spiteful))
        else:
            refused = [await ask(nc, settings, body) for body in spiteful]
        assert not any(one["ok"] for one in refused)
        assert refused[-1]["error"]["details"]["cause"] in {
            "extension_error",
            "extension_unavailable",
        }
        honest = [await ask(nc, settings, a_request(f"h-{number}")) for number in range(3)]
        assert [one["ok"] for one in honest] == [True] * 3, honest
        state = (await call(nc, "get_circuit_breaker_states"))["states"]["guard"]
        assert (state["state"], state["not_closed"]) == ("open", {"spiteful": "open"})


@pytest.mark.parametrize("is_stream", [False, True])
async def test_one_tenants_invocations_that_break_a_provider_leave_it_open_to_the_others(
    nc: Client, nats_url: str, prefix: str, is_stream: bool
) -> None:
    async def answer(message: Msg) -> None:
        await (says_no(500) if json.loads(message.data)["tenant_id"] == "spiteful" else answers)(
            message
        )

    async with a_router(settings_for(nats_url, prefix)) as router, serve_provider(nc, answer):
        await register(router, an_entry())
        for _ in range(12):
            assert await code_of(nc, "spiteful", is_stream=is_stream) is not None
        assert await code_of(nc, "spiteful", is_stream=is_stream) == "extension_unavailable"
        assert await code_of(nc, "acme", is_stream=is_stream) is None


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(("number", "asked_of_each"), [(401, 5), (404, 5), (422, 8)])
async def test_a_provider_that_refuses_each_call_of_two_tenants_is_closed_to_them_and_to_no_other(  # noqa: PLR0917 - fixtures
    nc: Client, nats_url: str, prefix: str, number: int, asked_of_each: int, is_stream: bool
) -> None:
    """A key that is not valid fails each call of its tenant, and each is billed; what a request is
    at fault for says nothing.
    """

    async def answer(message: Msg) -> None:
        await (answers if json.loads(message.data)["tenant_id"] == "acme" else says_no(number))(
            message
        )

    async with (
        a_router(settings_for(nats_url, prefix)) as router,
        serve_provider(nc, answer) as asked,
    ):
        await register(router, an_entry())
        for tenant in ("spiteful", "third"):
            for _ in range(8):
                assert await code_of(nc, tenant, is_stream=is_stream) is not None
        assert len(asked) == 2 * asked_of_each
        assert await code_of(nc, "acme", is_stream=is_stream) is None


async def code_of(nc: Client, tenant: str, *, is_stream: bool) -> str | None:
    """Of an invocation's failure; None: it was answered."""
    body = json.dumps({"provider_id": "echo", "tenant_id": tenant, "body": "hello"}).encode()
    if not is_stream:
        answer = await nc.request(INVOKE, body, timeout=30)
        return json.loads(answer.data).get("error_code")  # type: ignore[no-any-return]
    inbox = nc.new_inbox()
    heard = await nc.subscribe(inbox)
    await nc.publish(INVOKE_STREAM, body, reply=inbox)
    while not (chunk := json.loads((await heard.next_msg(timeout=30)).data))["done"]:
        continue
    await heard.unsubscribe()
    return chunk["metadata"].get("error_code")  # type: ignore[no-any-return]


async def test_an_extension_that_fails_for_two_tenants_is_left_alone_by_all(
    nc: Client, at: PipelinePlace
) -> None:
    guard = await Extension(nc, "validator", "guard", breaks).start()
    names = itertools.count()
    async with a_pipeline(at, GUARD, POLICY) as (_, settings):
        for tenant in ("acme", "third"):
            for _ in range(5):
                await ask(nc, settings, a_request(next(names), tenant_id=tenant))
        assert len(guard.asked) == 10
        refused = await ask(nc, settings, a_request(next(names), tenant_id="spiteful"))
        assert refused["error"]["details"]["cause"] == "extension_unavailable"
        assert len(guard.asked) == 10
