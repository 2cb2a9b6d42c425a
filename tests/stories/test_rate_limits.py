"""Rate limits over two routers: together they let through what one may, and each alone while the
bucket cannot be reached.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from nats.aio.client import Client

from router.policies.model import rate_limits
from tests.support.policy import a_document, a_provider
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Json, a_request, ask

BURST = 20
REQUESTS = 80


def write_policy(directory: Path) -> Path:
    (directory / "acme").mkdir()
    limit = {"requests_per_second": 1, "burst": BURST}
    (directory / "acme" / "default.json").write_text(
        json.dumps(a_document(a_provider("a"), rate_limit=limit))
    )
    return directory


@pytest.fixture
async def routers(nats_url: str, prefix: str, tmp_path: Path) -> AsyncIterator[list[Running]]:
    policies = write_policy(tmp_path)
    every = [settings_for(nats_url, prefix, node_id=f"node-{number}") for number in (1, 2)]
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(a_router(settings, policies)) for settings in every]


async def ask_many(nc: Client, router: Running, **fields: object) -> list[Json]:
    return await asyncio.gather(
        *(ask(nc, router.settings, a_request(number, **fields)) for number in range(REQUESTS))
    )


@pytest.mark.parametrize("is_pushed", [False, True])
async def test_two_routers_let_through_what_one_policy_allows(
    monkeypatch: pytest.MonkeyPatch, nc: Client, routers: list[Running], *, is_pushed: bool
) -> None:
    """A busy machine lets a request wait longer than a second for the bucket's answer, and then its
    router counts alone.
    """
    monkeypatch.setattr(rate_limits, "WAIT_S", 60.0)
    # nor is a token that was taken for a request dropped before the request's turn
    monkeypatch.setattr(rate_limits, "HELD_S", 60.0)
    began = time.monotonic()
    answers = await ask_many(nc, routers[0], push_assignment=is_pushed)
    allowed = sum(answer["ok"] for answer in answers)
    # a slice, here of one or two tokens, may be in each router
    assert BURST - 2 <= allowed <= BURST + (time.monotonic() - began) + 2
    refused = [answer["error"] for answer in answers if not answer["ok"]]
    assert {error["code"] for error in refused} == {"rate_limit_exceeded"}
    assert all(error["details"]["retry_after_ms"] > 0 for error in refused)


async def test_without_the_bucket_each_router_counts_alone(
    nc: Client, routers: list[Running]
) -> None:
    await nc.jetstream().delete_key_value(routers[0].settings.buckets.rate_limits.name)
    answers = await ask_many(nc, routers[0])
    assert BURST <= sum(answer["ok"] for answer in answers) < REQUESTS
