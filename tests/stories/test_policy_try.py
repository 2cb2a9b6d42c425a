"""Recorded decisions: a candidate tried on them before it is put, and each explained by the version
that made it.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
from nats.aio.client import Client

from router.config import Settings
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.operate.admin.service import ADMIN
from router.policies.store import PolicyStore
from tests.support.breakers import end_provider_opening
from tests.support.cli import CommandResult, router
from tests.support.delivery import connected
from tests.support.policy import a_document, a_provider
from tests.support.recorded import HALVES
from tests.support.router_streams import (
    a_result,
    headers_of,
    publish_result,
    results_are_settled,
    store_assignment,
)
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import MessageRecorder, a_request, ask
from tests.support.waiting import until

REQUESTS = 40
OPEN_MS = 60_000  # longer than a test
KEY = "k-1"
LEFT, RIGHT = a_document(a_provider("left")), a_document(a_provider("right"))


@pytest.fixture
async def routers(nats_url: str, prefix: str, tmp_path: Path) -> AsyncIterator[list[Running]]:
    """Two instances that record two tenants; requests meet a policy of two halves."""
    for tenant in ("acme", "initech"):
        a_file(tmp_path / "seed" / tenant / "default.json", a_document(*HALVES))
    recorded = {"recorder__tenants": "acme,initech", "admin__api_key": KEY}
    async with AsyncExitStack() as stack:
        every = [settings_for(nats_url, prefix, node_id=f"node-{n}", **recorded) for n in (1, 2)]
        yield [
            await stack.enter_async_context(a_router(settings, tmp_path / "seed"))
            for settings in every
        ]


def a_file(path: Path, document: dict[str, object]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(document))
    return str(path)


async def command(*arguments: str, url: str, key: str = KEY) -> CommandResult:
    """`router …`, while the routers of this process go on; on a busy machine they may stand still
    for a while first.
    """
    return await asyncio.to_thread(
        router,
        *arguments,
        "--timeout",
        "60",
        "--nats-url",
        url,
        environ={"ROUTER_ADMIN__API_KEY": key},
    )


async def ask_both(*arguments: str, url: str) -> CommandResult:
    """A command that asks the whole fleet takes a short silence for its end: asked again until both
    routers were heard in time.
    """
    while (found := await command(*arguments, "--json", url=url)).json["instances"] < 2:
        pass
    return found


async def decided(
    nc: Client, routers: list[Running], *names: object, tenant: str = "acme"
) -> list[str]:
    """Who was chosen for each of these requests."""
    bodies = [
        a_request(
            name, message={"tenant_id": tenant, "message_type": "chat", "payload": "secret words"}
        )
        for name in names
    ]
    answers = [await ask(nc, routers[0].settings, body) for body in bodies]
    return [answer["decision"]["provider_id"] for answer in answers]


async def everyones(
    nc: Client, service: str, instances: int = 2, **asked: object
) -> list[dict[str, Any]]:
    """What all instances say, asked by a plain client."""
    inbox = nc.new_inbox()
    ears = await MessageRecorder.on(nc, inbox)
    await nc.publish(ADMIN + service, orjson.dumps({**asked, "api_key": KEY}), reply=inbox)
    await until(lambda: len(ears) == instances, what="every instance answers")
    return [json.loads(answer) for answer in ears.heard[inbox]]


async def is_back(nc: Client, running: Running) -> bool:
    """Whether the breaker lets a request through again."""
    return await decided(nc, [running], f"probe-{nc.new_inbox()}") == ["openai"]


async def reported(nc: Client, settings: Settings, *ids: str, **fields: Any) -> None:
    """Outcomes of openai, each of an assignment of its own."""
    for one in ids:
        await store_assignment(nc, settings, one)
        await publish_result(
            nc, settings, a_result(one, **fields), headers_of(one, tenant_id="acme")
        )
    await until(lambda: results_are_settled(nc, settings))


async def test_a_changed_decision_is_found_before_the_candidate_is_put(
    nc: Client, nats_url: str, routers: list[Running], tmp_path: Path
) -> None:
    chosen = await decided(nc, routers, *range(REQUESTS))
    candidate = a_file(tmp_path / "acme" / "default.json", LEFT)
    found = await ask_both("policy", "try", candidate, "--against", str(REQUESTS), url=nats_url)
    assert (found.status, found.json["instances"], found.json["missing"]) == (1, 2, 0)
    assert {one["request_id"] for one in found.json["changed"]} == {
        f"r-{n}" for n in range(REQUESTS) if chosen[n] == "right"
    }
    assert found.json["pairs"] == [
        {
            "before": "right (weighted)",
            "after": "left (weighted)",
            "requests": chosen.count("right"),
        }
    ]
    assert found.json["unchanged"] == chosen.count("left")

    told = await command("policy", "try", candidate, "--against", str(REQUESTS), url=nats_url)
    assert f"{chosen.count('right')} of {REQUESTS} recorded decisions would change" in told.out
    assert {
        running.service.policy_table.find("acme", "default").version for running in routers
    } == {1}  # type: ignore[union-attr]


async def test_a_candidate_that_says_the_same_changes_nothing(
    nc: Client, nats_url: str, routers: list[Running], tmp_path: Path
) -> None:
    await decided(nc, routers, *range(REQUESTS))
    same = a_file(tmp_path / "acme" / "default.json", a_document(*HALVES))
    found = await ask_both("policy", "try", same, "--against", "10", url=nats_url)
    assert (found.status, found.json["unchanged"], found.json["changed"]) == (0, 10, [])


async def test_a_decision_is_explained_by_the_version_that_made_it(
    nc: Client, nats_url: str, routers: list[Running]
) -> None:
    (chosen,) = await decided(nc, routers, "old")
    async with connected(nats_url) as connection:
        store = PolicyStore(
            DocumentBucket(JetStream(connection), routers[0].settings.buckets.policies.name)
        )
        await store.put(
            "acme",
            "default",
            orjson.dumps(LEFT if chosen == "right" else RIGHT),
            replaces=1,
            author="ann",
        )
    await until(
        lambda: all(
            running.service.policy_table.find("acme", "default").version == 2 for running in routers
        )
    )  # type: ignore[union-attr]

    told = await command(
        "decisions", "explain", "r-old", "--tenant", "acme", "--json", url=nats_url
    )
    assert (told.status, told.json["policy"]["version"], told.json["reevaluation"]["is_same"]) == (
        0,
        1,
        True,
    )
    assert (
        told.json["decision"]["provider_id"]
        == told.json["reevaluation"]["decision"]["provider_id"]
        == chosen
    )
    assert told.json["reevaluation"]["trace"][-1] == {
        "stage": "weighted",
        "subject": chosen,
        "verdict": "chosen",
    }
    assert "secret words" not in told.out

    shown = await command("decisions", "explain", "r-old", "--tenant", "acme", url=nats_url)
    assert "the same" in shown.out
    assert "policy acme/default version 1" in shown.out


async def test_the_providers_are_recorded_as_they_were(
    nc: Client, nats_url: str, prefix: str, tmp_path: Path
) -> None:
    """A breaker was open then and is closed by the next results: the explanation still knows why
    its provider fell.
    """
    breaker = {
        "enabled": True,
        "failure_threshold": 2,
        "success_threshold": 1,
        "timeout_ms": OPEN_MS,
    }
    document = a_document(
        a_provider("openai"), a_provider("anthropic", priority=1), circuit_breaker=breaker
    )
    a_file(tmp_path / "acme" / "default.json", document)
    settings = settings_for(nats_url, prefix, recorder__tenants="acme")
    async with a_router(settings, tmp_path) as running:
        await reported(nc, settings, "w-1", "w-2", status="error", error_code="SERVER_ERROR")
        assert await decided(nc, [running], "then") == ["anthropic"]
        context = running.service._context
        assert context is not None
        end_provider_opening(context.breakers.providers, "acme", "openai")
        assert await is_back(nc, running)

        (told,) = await everyones(
            nc, "explain_decision", instances=1, tenant_id="acme", request_id="r-then"
        )
        assert 0 < told["states"]["openai"]["open_for_ms"] <= OPEN_MS
        assert told["reevaluation"]["trace"][0] == {
            "stage": "eligible",
            "subject": "openai",
            "verdict": "circuit_breaker_open",
        }
        assert (
            told["reevaluation"]["decision"]["provider_id"],
            told["reevaluation"]["is_same"],
        ) == ("anthropic", True)


async def test_a_tenant_never_reaches_anothers_recorded_request(
    nc: Client, routers: list[Running]
) -> None:
    """Story 9."""
    await decided(nc, routers, "mine", tenant="acme")
    answers = await everyones(nc, "explain_decision", tenant_id="initech", request_id="r-mine")
    assert [answer["error"]["code"] for answer in answers] == ["decision_not_found"] * 2
    answers = await everyones(
        nc, "try_policy", tenant_id="initech", policy_id="default", policy=LEFT, against=10
    )
    assert [(answer["is_recorded"], answer["compared"]) for answer in answers] == [(True, [])] * 2
    answers = await everyones(nc, "explain_decision", tenant_id="acme", request_id="r-mine")
    assert [answer["ok"] for answer in answers].count(True) == 1


async def test_without_the_key_nothing_is_told(
    nc: Client, nats_url: str, routers: list[Running]
) -> None:
    await decided(nc, routers, "mine")
    told = await command(
        "decisions", "explain", "r-mine", "--tenant", "acme", url=nats_url, key="wrong"
    )
    assert (told.status, told.out) == (1, "")
    assert "unauthorized" in told.err
