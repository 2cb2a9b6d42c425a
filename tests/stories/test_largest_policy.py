"""Policies as large as a bucket takes: no router stands still for one, neither while it runs nor at
its start.
"""

import json
from functools import partial
from typing import Any

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.contracts.stored_record import record_bytes
from router.contracts.version_record import make_record
from router.delivery.kv.followed_bucket import SMALL
from router.policies.model import PolicyError
from router.policies.model.parse import MAX_POLICY_BYTES
from router.policies.model.sections import MOST_PROVIDERS
from tests.support.policy_buckets import a_policy_of, store_of
from tests.support.requests import a_body
from tests.support.service import a_router
from tests.support.stories import Json, ask, read_page
from tests.support.waiting import until


def a_document(providers: int, name: str = "p", **fields: Any) -> Json:
    return {
        "version": "1.0",
        "providers": [
            {"name": f"{name}{number}", "weight": 1, **fields} for number in range(providers)
        ],
    }


def a_large_one(name: str, providers: int = MOST_PROVIDERS) -> bytes:
    """So large that it is read in a thread."""
    document = json.dumps(
        a_document(providers, name, priority=50, expected_latency_ms=500)
    ).encode()
    assert len(document) > SMALL
    return document


HUGE = record_bytes(make_record(a_document(26_000), version=1, author="x"))


async def test_a_policy_of_26_000_providers_stops_no_request_and_no_start(
    nc: Client, settings: Settings
) -> None:
    body = json.dumps({**a_body(), "policy_id": "after"}).encode()
    async with a_router(settings) as router, store_of(settings) as store:
        await nc.publish(f"$KV.{settings.buckets.policies.name}.acme.huge", HUGE)
        await store.put("acme", "after", a_policy_of("q"), replaces=0, author="x")

        async def is_in_force() -> bool:
            # each answer within its five seconds
            return bool((await ask(nc, settings, body))["ok"])

        await until(is_in_force)
        await until(
            lambda: _is_told(
                router.ready.http, f"acme.huge: policy: is larger than {MAX_POLICY_BYTES} bytes"
            )
        )
    async with a_router(settings):
        assert (await ask(nc, settings, body))["ok"]


async def _is_told(http: str, words: str) -> bool:
    return words in (await read_page(http, "/readyz"))[1]


async def test_large_policies_follow_one_another_and_go(nc: Client, settings: Settings) -> None:
    # without an id: each time a new request
    body = json.dumps({**a_body(), "policy_id": "large"}).encode()

    async def begins_with(name: str) -> bool:
        answer = await ask(nc, settings, body)
        return answer["decision"]["provider_id"].startswith(name) if answer["ok"] else name == ""

    async with a_router(settings), store_of(settings) as store:
        for version, name in enumerate(("a", "b", "c")):
            await store.put(
                "acme", "large", a_large_one(name), replaces=version or None, author="x"
            )
        await until(partial(begins_with, "c"))
        with pytest.raises(
            PolicyError,
            match=f"providers: has {MOST_PROVIDERS + 1} entries where {MOST_PROVIDERS} are allowed",
        ):
            await store.put(
                "acme", "large", a_large_one("d", MOST_PROVIDERS + 1), replaces=3, author="x"
            )
        await nc.publish(f"$KV.{settings.buckets.policies.name}.acme.large", b" " * (SMALL + 1))
        await store.put("acme", "after", a_policy_of("q"), replaces=0, author="x")
        assert await begins_with("c")  # the last good one serves
    async with a_router(settings), store_of(settings) as store:
        assert await begins_with("c")
        await store.delete("acme", "large")
        await until(partial(begins_with, ""))
