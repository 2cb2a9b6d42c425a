"""A provider that limits a tenant is left alone for as long as it says, by every router, with and
without a circuit breaker.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from router import Client as RouterClient
from router.config import Settings
from router.contracts.extension import RETRY_AFTER
from router.policies.model import providers, rate_limits
from router.sdk.providers import InvocationFailed
from tests.support.breakers import end_rate_limit
from tests.support.policy import a_document, a_provider, a_rule
from tests.support.providers import an_entry, register, says_no, serve_provider
from tests.support.router_streams import (
    a_result,
    headers_of,
    publish_result,
    read_usage,
    results_are_settled,
    store_assignment,
)
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Json, a_request, ask
from tests.support.waiting import until

LONG_MS = 300_000  # longer than a test: where one goes on, it ends the limit
USUAL, FALLBACK = ("openai", "weighted"), ("anthropic", "circuit_breaker_fallback")
BREAKER = {"enabled": True, "failure_threshold": 3}


@pytest.fixture(autouse=True)
def probes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test need be faster than a probe."""
    monkeypatch.setattr(rate_limits, "PROBE_S", 600.0)
    monkeypatch.setattr(providers, "CAREFUL_S", 600.0)


class Reports:
    """What workers report of openai, and where requests go."""

    def __init__(self, nc: Client, settings: Settings) -> None:
        self._nc = nc
        self._settings = settings
        self._number = 0

    async def limit(self, **fields: Any) -> None:
        """One result that is a rate limit, taken in by some router."""
        self._number += 1
        name = f"w{self._number}"
        told = {"status": "error", "error_code": "429", "retry_after_ms": LONG_MS, **fields}
        await store_assignment(self._nc, self._settings, name, "openai", "acme")
        await publish_result(self._nc, self._settings, a_result(name, **told), headers_of(name))
        await until(lambda: results_are_settled(self._nc, self._settings))

    async def succeed(self) -> None:
        await self.limit(status="success", error_code=None, retry_after_ms=None, latency_ms=0)

    async def ask(self, tenant: str = "acme") -> Json:
        self._number += 1
        return await ask(self._nc, self._settings, a_request(f"q{self._number}", tenant_id=tenant))

    async def chosen(self, tenant: str = "acme") -> tuple[str, str]:
        decision = (await self.ask(tenant))["decision"]
        return decision["provider_id"], decision["reason"]


def write_policies(directory: Path, **sections: object) -> Path:
    """Openai has all requests; where it is left alone, anthropic."""
    rules = [a_rule("anthropic", {"status": "circuit_breaker_open"})]
    for tenant in ("acme", "other"):
        (directory / tenant).mkdir()
        document = a_document(a_provider("openai"), **{"fallbacks": rules, **sections})
        (directory / tenant / "default.json").write_text(json.dumps(document))
    return directory


@pytest.mark.parametrize(
    "sections", [{}, {"circuit_breaker": BREAKER}], ids=["no breaker", "breaker"]
)
async def test_it_is_left_alone_for_this_tenant_and_tried_with_one_request_afterwards(
    nc: Client, settings: Settings, tmp_path: Path, sections: Json
) -> None:
    async with a_router(settings, write_policies(tmp_path, **sections)) as router:
        reports = Reports(nc, settings)
        assert await reports.chosen() == USUAL
        await reports.limit()
        assert {await reports.chosen() for _ in range(5)} == {FALLBACK}
        assert await reports.chosen("other") == USUAL

        _end_limit(router)
        assert [await reports.chosen() for _ in range(2)] == [USUAL, FALLBACK]
        await reports.succeed()
        assert {await reports.chosen() for _ in range(5)} == {USUAL}


async def test_another_limit_after_the_first_one_leaves_it_alone_again(
    nc: Client, settings: Settings, tmp_path: Path
) -> None:
    async with a_router(settings, write_policies(tmp_path)) as router:
        reports = Reports(nc, settings)
        await reports.limit()
        _end_limit(router)
        assert await reports.chosen() == USUAL
        assert _find_left_ms(router) == 0
        await reports.limit(error_code="RATE_LIMITED")
        assert _find_left_ms(router) > 0, "for a time, and not only until the probe's result"
        assert {await reports.chosen() for _ in range(5)} == {FALLBACK}


async def test_where_no_provider_is_left_the_answer_says_when_to_ask_again(
    nc: Client, settings: Settings, tmp_path: Path
) -> None:
    async with a_router(settings, write_policies(tmp_path, fallbacks=[])):
        reports = Reports(nc, settings)
        await reports.limit()
        error = (await reports.ask())["error"]
        assert error["code"] == "decision_failed"
        assert error["details"]["providers"] == {"openai": "rate_limited"}
        assert 0 < error["details"]["retry_after_ms"] <= LONG_MS


async def test_no_result_leaves_it_alone_for_longer_than_the_setting_allows(
    nc: Client, nats_url: str, prefix: str, tmp_path: Path
) -> None:
    settings = settings_for(nats_url, prefix, providers__longest_rate_limit_ms=60_000)
    async with a_router(settings, write_policies(tmp_path, fallbacks=[])):
        reports = Reports(nc, settings)
        await reports.limit(retry_after_ms=2**60)
        assert 0 < (await reports.ask())["error"]["details"]["retry_after_ms"] <= 60_000


async def test_every_router_leaves_it_alone_and_one_that_starts_later_too(
    nc: Client, settings: Settings, tmp_path: Path
) -> None:
    reports, policies = Reports(nc, settings), write_policies(tmp_path)
    async with a_router(settings, policies) as one, a_router(settings, policies) as other:
        await reports.limit()
        await until(lambda: _limits(one) and _limits(other), within_s=10)
        async with a_router(settings, policies) as late:
            await until(lambda: _limits(late), within_s=10)
        assert {await reports.chosen() for _ in range(6)} == {FALLBACK}


def _end_limit(router: Running) -> None:
    context = router.service._context
    assert context is not None
    end_rate_limit(context.breakers.providers, "acme", "openai")


def _find_left_ms(router: Running) -> int:
    context = router.service._context
    assert context is not None
    return context.breakers.limits.find_left_ms("acme", "openai")


def _limits(router: Running) -> bool:
    context = router.service._context
    assert context is not None
    shut = context.breakers.providers.find_not_closed("acme")
    return shut is not None and "openai" in shut.limits


async def test_an_invocation_that_is_limited_closes_the_provider_for_its_tenant_alone(
    nc: Client, settings: Settings, nats_url: str, tmp_path: Path
) -> None:
    """While it is closed no call reaches it, and nothing is billed."""
    async with (
        a_router(settings, write_policies(tmp_path)) as router,
        RouterClient(nats_url) as client,
    ):
        await register(router, an_entry())
        asked = {"provider_id": "echo", "prompt": "hello"}
        async with serve_provider(nc, says_no(429, **{RETRY_AFTER: "60000"})) as heard:
            limited = await client.invoke(**asked, tenant_id="acme")
            again = await client.invoke(**asked, tenant_id="acme")
            with pytest.raises(InvocationFailed) as ended:
                async for _ in client.invoke_stream(**asked, tenant_id="acme"):
                    pass
            assert len(heard) == 1
            assert (await client.invoke(**asked, tenant_id="beta")).metadata[
                "fault"
            ] == "rate_limit"
            assert len(heard) == 2
        for metadata in (limited.metadata, again.metadata, ended.value.metadata):
            assert (metadata["fault"], 50_000 < int(metadata["retry_after_ms"]) <= 60_000) == (
                "rate_limit",
                True,
            )

        async def has_two() -> bool:
            return len(await read_usage(nc, settings)) == 2

        await until(has_two, what="the two attempts that reached the provider are metered")
