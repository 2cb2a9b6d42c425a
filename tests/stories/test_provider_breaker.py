"""A provider fails, is left alone by every router, is tried again with a few requests, and is taken
back.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.breakers import end_provider_opening
from tests.support.policy import a_document, a_provider, a_rule
from tests.support.router_streams import (
    AlertRecorder,
    a_result,
    headers_of,
    publish_result,
    results_are_settled,
    store_assignment,
)
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Json, a_request, ask, read_page
from tests.support.waiting import until

HONOURED_S = 1.0
OPEN_MS = 60_000  # longer than a test: where one goes on, it ends the opening


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """Everything goes to openai; what an open circuit stops goes to anthropic."""
    document = a_document(
        a_provider("openai", expected_latency_ms=12_000),  # a probe has a minute
        fallbacks=[a_rule("anthropic", {"status": "circuit_breaker_open"})],
        circuit_breaker={
            "enabled": True,
            "failure_threshold": 3,
            "success_threshold": 2,
            "timeout_ms": OPEN_MS,
            "half_open_max_calls": 2,
        },
    )
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "default.json").write_text(json.dumps(document))
    return tmp_path


class Providers:
    """What workers report of them, and where requests go."""

    def __init__(self, nc: Client, settings: Settings) -> None:
        self._nc = nc
        self._settings = settings
        self._number = 0

    async def publish_result(self, times: int = 1, **fields: Any) -> None:
        """So many outcomes of openai, each of an assignment of its own, taken in by some router."""
        tenant = fields.get("tenant_id", "acme")
        for _ in range(times):
            self._number += 1
            name = f"w{self._number}"
            await store_assignment(self._nc, self._settings, name, "openai", tenant)
            await publish_result(
                self._nc,
                self._settings,
                a_result(name, **fields),
                headers_of(name, tenant_id=tenant),
            )
        await until(lambda: results_are_settled(self._nc, self._settings))

    async def fail(self, times: int = 3, **fields: Any) -> None:
        await self.publish_result(
            times, **{"status": "error", "error_code": "SERVER_ERROR", **fields}
        )

    async def chosen(self) -> tuple[str, str, int]:
        """Provider, reason and priority of the next request."""
        self._number += 1
        answer: Json = await ask(
            self._nc, self._settings, a_request(f"q{self._number}", tenant_id="acme")
        )
        decision = answer["decision"]
        return decision["provider_id"], decision["reason"], decision["priority"]


FALLBACK = ("anthropic", "circuit_breaker_fallback", 20)
USUAL = ("openai", "weighted", 50)


async def test_failures_open_it_probes_try_it_and_successes_close_it(
    nc: Client, nats_url: str, prefix: str, policies: Path
) -> None:
    settings = settings_for(nats_url, prefix, metrics__tenant_label_allowlist="acme")
    alarms = await AlertRecorder.heard_on(nc)
    async with a_router(settings, policies) as router:
        providers = Providers(nc, settings)
        await providers.fail(2)
        assert await providers.chosen() == USUAL
        await providers.fail(1)
        assert await providers.chosen() == FALLBACK
        assert await _state(router.ready.http) == "open"
        await until(lambda: "breaker_opened:provider:acme/openai" in alarms.causes("warning"))

        _end_opening(router)
        assert await _state(router.ready.http) == "half_open"
        assert [await providers.chosen() for _ in range(4)] == [USUAL, USUAL, FALLBACK, FALLBACK]
        await providers.publish_result(2)
        assert await _state(router.ready.http) == "closed"
        assert [await providers.chosen() for _ in range(4)] == [USUAL] * 4
        await until(lambda: alarms.causes("info") == ["breaker_closed:provider:acme/openai"])


async def test_a_failed_probe_opens_it_again(
    nc: Client, nats_url: str, prefix: str, policies: Path
) -> None:
    settings = settings_for(nats_url, prefix, metrics__tenant_label_allowlist="acme")
    async with a_router(settings, policies) as router:
        providers = Providers(nc, settings)
        await providers.fail(3)
        _end_opening(router)
        assert await _state(router.ready.http) == "half_open"
        assert await providers.chosen() == USUAL
        await providers.fail(1, status="timeout", error_code=None)
        assert await providers.chosen() == FALLBACK


async def test_what_is_not_the_providers_fault_opens_nothing(
    nc: Client, settings: Settings, policies: Path
) -> None:
    async with a_router(settings, policies):
        providers = Providers(nc, settings)
        for fault in (
            {"error_code": "422"},
            {"error_code": "VALIDATION_ERROR"},
            {"status": "cancelled"},
            {"error_code": "3001"},
        ):
            await providers.fail(3, **fault)
        await providers.fail(3, tenant_id="other")
        assert await providers.chosen() == USUAL


async def test_every_router_honours_an_opening_within_a_second(
    nc: Client, nats_url: str, prefix: str, policies: Path
) -> None:
    """Of five failures three come to one of two routers: it tells the other, and each router that
    starts later.
    """
    settings = settings_for(nats_url, prefix, metrics__tenant_label_allowlist="acme")
    providers = Providers(nc, settings)
    async with a_router(settings, policies) as one, a_router(settings, policies) as other:
        await providers.fail(5)
        for router in (one, other):
            await until(lambda http=router.ready.http: _is(http, "open"), within_s=HONOURED_S)
        async with a_router(settings, policies) as late:
            assert await _state(late.ready.http) == "open"
        assert {await providers.chosen() for _ in range(4)} == {FALLBACK}


def _end_opening(router: Running) -> None:
    """Openai's circuit was open for as long as the policy says."""
    context = router.service._context
    assert context is not None
    assert end_provider_opening(context.breakers.providers, "acme", "openai") == pytest.approx(
        OPEN_MS / 1000
    )


async def _state(http: str) -> str | None:
    for line in (await read_page(http, "/metrics"))[1].splitlines():
        if (
            line.startswith("router_circuit_breaker_state{")
            and 'name="acme/openai"' in line
            and line.endswith(" 1.0")
        ):
            return line.split('state="')[1].split('"')[0]
    return None


async def _is(http: str, state: str) -> bool:
    return await _state(http) == state
