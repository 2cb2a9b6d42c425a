"""A caller that waits for less time than the registry allows an extension says nothing about the
extension: no breaker opens for others.
"""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.contracts.extension import DEADLINE
from tests.support.admin import call
from tests.support.extension_pipeline import Answer, Extension, PipelinePlace, a_pipeline, passes
from tests.support.policy import a_document
from tests.support.stories import a_request, ask, read_metric

GUARD = {"guard": {"kind": "validator", "timeout_ms": 5_000}}
PATIENT = {"default": {"validators": [{"id": "guard"}]}}
SHORT = {
    "of_the_call": {"validators": [{"id": "guard", "timeout_ms": 10}]},
    "of_the_policy": {"validators": [{"id": "guard"}], "timeout_ms": 30},
}
# above the five failures in a row, and above the ten calls of the window, that open a breaker
CALLS = 12


@pytest.fixture
def at(nats_url: str, prefix: str, tmp_path: Path) -> PipelinePlace:
    shelf = tmp_path / "policies" / "hasty"
    shelf.mkdir(parents=True)
    for name, sections in SHORT.items():
        (shelf / f"{name}.json").write_text(json.dumps(a_document(**sections)))
    return PipelinePlace(nats_url, prefix, tmp_path)


async def _keeps_silent(_: Msg) -> None: ...


async def _says_that_the_deadline_is_over(message: Msg) -> None:
    assert message.headers is not None
    assert int(message.headers[DEADLINE]) <= 30
    headers = {
        "Nats-Service-Error-Code": "504",
        "Nats-Service-Error": "The request's deadline has passed",
    }
    await message._client.publish(message.reply, b"", headers=headers)


@pytest.mark.parametrize("policy", SHORT)
@pytest.mark.parametrize("hastily", [_keeps_silent, _says_that_the_deadline_is_over])
async def test_a_short_timeout_of_one_tenant_opens_no_breaker_for_the_others(
    nc: Client, at: PipelinePlace, policy: str, hastily: Answer
) -> None:
    """An extension that honours the deadline answers 504: the same caller's haste, told by the
    service.
    """

    heard = [0]

    async def answer(message: Msg) -> None:
        is_hasty = json.loads(message.data)["tenant_id"] == "hasty"
        heard[0] += is_hasty
        await (hastily if is_hasty else passes)(message)

    await Extension(nc, "validator", "guard", answer).start()
    async with a_pipeline(at, GUARD, PATIENT) as (router, settings):
        numbers = itertools.count()
        # a request whose time is over before the extension's turn calls none
        while heard[0] < CALLS:
            hasty = [
                a_request(next(numbers), tenant_id="hasty", policy_id=policy) for _ in range(CALLS)
            ]
            refused = await asyncio.gather(*(ask(nc, settings, body) for body in hasty))
            assert not any(one["ok"] for one in refused)
        assert (await ask(nc, settings, a_request("patient")))["ok"]
        health: dict[str, Any] = (await call(nc, "get_extension_health"))["health"]["guard"]
        assert (health["circuit_breaker_state"], health["failure_count"]) == ("closed", 0)
        # an answer after the deadline is no success either
        assert (health["success_count"], health["latency_samples"]) == (1, 1)
        assert (
            await read_metric(router.ready.http, "router_extension_calls_total", status="late")
            == heard[0]
        )
        assert await read_metric(router.ready.http, "router_extension_seconds_count") == 1
