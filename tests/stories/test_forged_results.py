"""What a worker may say of other tenants' providers, and of its own: results steer nothing but by
an assignment that is known.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.policy import a_document, a_provider, a_rule
from tests.support.router_streams import (
    a_result,
    publish_result,
    read_usage,
    results_are_settled,
    store_assignment,
)
from tests.support.service import a_router, settings_for
from tests.support.stories import Json, a_request, ask, read_dead_letters, read_metric
from tests.support.waiting import until

THRESHOLD = 3
MONTH_MS = 30 * 24 * 3600 * 1000
USUAL, FALLBACK = "openai", "anthropic"


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """Everything goes to openai; what its open breaker stops goes to anthropic, whose own breaker
    sends it to mistral.
    """
    document = a_document(
        a_provider(USUAL),
        fallbacks=[a_rule(FALLBACK, {"status": "circuit_breaker_open"})],
        circuit_breaker={"enabled": True, "failure_threshold": THRESHOLD, "timeout_ms": 60_000},
    )
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "default.json").write_text(json.dumps(document))
    return tmp_path


@pytest.fixture
def settings(nats_url: str, prefix: str) -> Settings:
    return settings_for(nats_url, prefix, metrics__tenant_label_allowlist="victim")


async def test_forged_results_open_no_breaker_and_move_no_average(
    nc: Client, settings: Settings, policies: Path
) -> None:
    """Of assignments that no router knows: timeouts, and a success that took a month."""
    async with a_router(settings, policies) as router:
        for number in range(5):
            await _tell(nc, settings, f"forged{number}", status="timeout", tenant_id="victim")
        await _tell(nc, settings, "slow", latency_ms=MONTH_MS, tenant_id="victim")
        await _tell(nc, settings, "label", provider_id="made-up", tenant_id="victim")
        assert await _chosen(nc, settings) == USUAL
        assert await read_metric(router.ready.http, "router_results_uncorrelated_total") == 7
        assert await read_metric(router.ready.http, "router_results_total", provider="made-up") == 0
        assert len(await read_usage(nc, settings)) == 7


async def test_a_result_speaks_of_its_assignments_provider_whatever_it_names(
    nc: Client, settings: Settings, policies: Path
) -> None:
    async with a_router(settings, policies) as router:
        for number in range(THRESHOLD):
            known = await store_assignment(nc, settings, number, FALLBACK, "victim")
            await _tell(nc, settings, number, status="timeout", provider_id=USUAL, **known)
        assert await _chosen(nc, settings) == USUAL
        assert (
            await read_metric(router.ready.http, "router_results_total", provider=FALLBACK)
            == THRESHOLD
        )
        events = await read_usage(nc, settings)
        assert {(event["provider_id"], event["told_provider_id"]) for event in events} == {
            (FALLBACK, USUAL)
        }


async def test_one_assignment_teaches_once_however_often_it_is_told(
    nc: Client, settings: Settings, policies: Path
) -> None:
    async with a_router(settings, policies):
        known = await store_assignment(nc, settings, "same", USUAL, "victim")
        for status in ("timeout", "error", "timeout", "error"):
            await _tell(nc, settings, "same", status=status, error_code="SERVER_ERROR", **known)
        by_request = {**known, "assignment_id": None}
        await _tell(nc, settings, "same", status="timeout", **by_request)
        assert await _chosen(nc, settings) == USUAL


async def test_uncorrelated_usage_is_marked(nc: Client, settings: Settings) -> None:
    async with a_router(settings):
        await _tell(nc, settings, "true", **await store_assignment(nc, settings, "true"))
        await _tell(nc, settings, "forged")
        marks = [event.get("correlated") for event in await read_usage(nc, settings)]
    assert marks == [None, False]


async def test_uncorrelated_usage_is_refused_where_the_settings_ask_for_it(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Not at its first attempt: its assignment may be known a moment later."""
    patient = settings_for(
        nats_url, prefix, usage__uncorrelated="refuse", results__backoff_ms="600000"
    )
    async with a_router(patient) as router:
        await publish_result(nc, patient, a_result("early"))
        await until(lambda: _is_sent_back(router.ready.http))
    await store_assignment(nc, patient, "early")
    # made anew, it delivers without the delay
    await nc.jsm().delete_consumer(patient.streams.results.name, patient.results.durable)
    settings = settings_for(
        nats_url, prefix, usage__uncorrelated="refuse", results__backoff_ms="50"
    )
    async with a_router(settings):
        await until(lambda: results_are_settled(nc, settings))
        await _tell(nc, settings, "forged")
        (letter,) = await read_dead_letters(nc, settings)
        (event,) = await read_usage(nc, settings)
    assert event["assignment_id"] == "a-early"
    assert (letter["assignment_id"], letter["validation_error"]["code"]) == (
        "a-forged",
        "CORRELATION_FIELDS_INVALID",
    )


async def _tell(nc: Client, settings: Settings, name: object, **fields: Any) -> None:
    """Report it, and wait until it is settled."""
    await publish_result(nc, settings, a_result(name, **fields))
    await until(lambda: results_are_settled(nc, settings))


async def _chosen(nc: Client, settings: Settings) -> str:
    body = a_request("next", tenant_id="victim", constraints={"max_latency_ms": 2000})
    answer: Json = await ask(nc, settings, body)
    assert answer["ok"], answer
    return str(answer["decision"]["provider_id"])


async def _is_sent_back(http: str) -> bool:
    return await read_metric(http, "router_redelivery_total") > 0
