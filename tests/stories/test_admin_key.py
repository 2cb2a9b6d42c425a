"""The operators' key: an empty key is refused, the router never writes the key anywhere, and
guessing it is slow and is logged.
"""

import asyncio
import json
import time

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.config import load
from router.core.errors import Misconfigured
from router.operate.admin import request_guard
from tests.support.admin import GET_DECISION, call, call_on, code
from tests.support.observability import capture_log
from tests.support.patient_client import connect_patiently
from tests.support.service import a_router, settings_for
from tests.support.stories import a_request, ask, read_metric
from tests.support.waiting import until

KEY = "sesame-opens-the-door"
FIND = "beamline.router.v1.internal.find_decision"
SECRETS = (
    "ROUTER_ADMIN__API_KEY",
    "ROUTER_NATS__PASSWORD",
    "ROUTER_NATS__TOKEN",
    "ROUTER_MAILBOX__DSN",
)


@pytest.mark.parametrize("variable", SECRETS)
@pytest.mark.parametrize("empty", ["", " ", "\n"])
def test_a_secret_that_is_set_and_empty_is_no_secret(variable: str, empty: str) -> None:
    """A variable whose secret is missing: `ROUTER_ADMIN__API_KEY=$KEY` without a KEY."""
    with pytest.raises(Misconfigured) as refused:
        load(None, {}, {variable: empty})
    name = variable.removeprefix("ROUTER_").lower().replace("__", ".")
    assert str(refused.value).startswith(f"{name}: ")
    assert "empty" in str(refused.value)


async def test_instances_find_each_others_decisions_and_no_client_hears_the_key(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = settings_for(nats_url, prefix, admin__api_key=KEY, admin__peers_wait_ms=20_000)
    heard: list[Msg] = []

    async def hear(message: Msg) -> None:
        heard.append(message)

    async with a_router(settings) as first:
        await nc.subscribe("beamline.router.v1.internal.>", cb=hear)
        await nc.subscribe("_INBOX.>", cb=hear)
        await nc.flush()
        await ask(nc, settings, a_request(1))
        async with a_router(settings):
            wanted = {"tenant_id": "acme", "request_id": "r-1"}

            async def is_found() -> bool:  # by the second instance, which has to ask the first
                await call_on(nc, GET_DECISION, {"api_key": KEY}, **wanted)
                return any(message.subject == FIND for message in heard)

            await until(is_found)
            found = [await call_on(nc, GET_DECISION, {"api_key": KEY}, **wanted) for _ in range(6)]
            assert [code(one) for one in found] == [""] * 6
            # the inner service wants a proof, or the key
            assert code(await call_on(nc, FIND, **wanted)) == "unauthorized"
            question = next(message for message in heard if message.subject == FIND)
            again = await nc.request(FIND, question.data, headers=dict(question.headers or {}))
            # the proof is for the inbox that it was made for
            assert code(json.loads(again.data)) == "unauthorized"
        assert first.service.readiness()["admin"].ok
    assert not [
        message for message in heard if KEY.encode() in message.data or KEY in str(message.headers)
    ]


async def test_guesses_are_few_counted_and_logged_and_who_has_the_key_is_served_meanwhile(
    nc: Client, nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # no further guess accrues while the machine is busy
    monkeypatch.setattr(request_guard, "ONE_PER_S", 1e-6)
    settings = settings_for(nats_url, prefix, admin__api_key=KEY)
    guesser, known = await connect_patiently(nats_url), await connect_patiently(nats_url)
    with capture_log("warning") as lines:
        async with a_router(settings) as router:
            assert (await call(known, "list_policies", {"api_key": KEY}))["ok"] is True
            began = time.monotonic()
            answers = [
                code(await call(guesser, "list_policies", {"api_key": f"guess-{n}"}))
                for n in range(300)
            ]
            assert answers == ["unauthorized"] * 20 + ["overloaded"] * 280  # one asker: twenty
            # the right one among them is no hit
            assert code(await call(guesser, "list_policies", {"api_key": KEY})) == "overloaded"
            # another asker
            assert (await call(nc, "list_policies", {"api_key": KEY}))["ok"] is True
            for n in range(300):  # each guess by an inbox of its own
                await guesser.publish(
                    "beamline.router.v1.admin.list_policies",
                    b"{}",
                    reply=f"_INBOX.g{n}.1",
                    headers={"api_key": f"guess-{n}"},
                )
            await guesser.flush()
            await until(lambda: _is_at_least(router.ready.http, 600))
            assert (await call(known, "list_policies", {"api_key": KEY}))["ok"] is True
            assert await read_metric(router.ready.http, "router_admin_keys_refused_total") >= 600
    await asyncio.gather(guesser.close(), known.close())
    told = [line for line in lines.all() if line["event"] == "admin.key_refused"]
    assert 1 <= len(told) <= 5 + time.monotonic() - began  # at most one a second
    assert "guess-" not in lines.stream.getvalue()


async def _is_at_least(http: str, count: int) -> bool:
    return await read_metric(http, "router_admin_keys_refused_total") >= count
