"""What a worker may say of money: an assignment has one bill, of the provider that was chosen, at a
cost near what was expected.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.contracts.assignment import assignment_id_of
from router.contracts.usage import ADJUSTED_SUBJECT, USAGE_SUBJECT, assignment_identity
from router.core.clock import now_ms
from tests.support.policy import a_document, a_provider
from tests.support.router_streams import (
    AlertRecorder,
    a_result,
    publish_result,
    read_stream,
    results_are_settled,
)
from tests.support.service import a_router
from tests.support.stories import Json, a_request, ask, read_metric
from tests.support.waiting import until

STATUSES = ("success", "error", "timeout", "cancelled")
EXPECTED, FACTOR = 0.02, 100  # of the policy; of the settings
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    (tmp_path / "acme").mkdir()
    document = a_document(a_provider("openai", expected_cost=EXPECTED))
    (tmp_path / "acme" / "default.json").write_text(json.dumps(document))
    return tmp_path


async def test_one_assignment_is_billed_once_whatever_its_outcomes_and_whichever_id_names_it(
    nc: Client, settings: Settings, policies: Path
) -> None:
    async with a_router(settings, policies):
        ids = await _assign(nc, settings, 1)
        for status in STATUSES:
            await _tell(nc, settings, **ids, status=status, cost=0.01)
            await _tell(nc, settings, **{**ids, "assignment_id": None}, status=status, cost=0.01)
        (event,) = await _read_usage(nc, settings)
    assert event["event_id"] == assignment_identity("acme", ids["assignment_id"])
    assert {**event, **ids} == event  # it names the assignment and its request


async def test_the_bill_names_the_provider_that_was_chosen(
    nc: Client, settings: Settings, policies: Path
) -> None:
    async with a_router(settings, policies) as router:
        ids = await _assign(nc, settings, 1)
        await _tell(nc, settings, **ids, provider_id="anthropic", cost=0.01)
        (event,) = await _read_usage(nc, settings)
        conflicts = await read_metric(
            router.ready.http, "router_results_overruled_total", field="provider_id"
        )
    assert (event["provider_id"], event["told_provider_id"], conflicts) == (
        "openai",
        "anthropic",
        1,
    )


async def test_a_later_outcome_that_names_another_provider_is_counted_too(
    nc: Client, settings: Settings, policies: Path
) -> None:
    async with a_router(settings, policies) as router:
        ids = await _assign(nc, settings, 1)
        await _tell(nc, settings, **ids, status="timeout", cost=0.004)
        await _tell(nc, settings, **ids, status="success", provider_id="anthropic", cost=0.01)
        bill, correction = await _read_usage(nc, settings)
        conflicts = await read_metric(
            router.ready.http, "router_results_overruled_total", field="provider_id"
        )
    assert (bill["provider_id"], "told_provider_id" in bill, conflicts) == ("openai", False, 1)
    assert (correction["provider_id"], correction["told_provider_id"]) == ("openai", "anthropic")


async def test_a_cost_far_above_the_expected_one_is_booked_at_the_bound_and_held(
    nc: Client, settings: Settings, policies: Path
) -> None:
    alerts = await AlertRecorder.heard_on(nc)
    async with a_router(settings, policies) as router:
        ids = await _assign(nc, settings, 1)
        await _tell(nc, settings, **ids, cost=1e9)
        await until(lambda: alerts.causes("warning"))
        (event,) = await _read_usage(nc, settings)
        ((subject, held, _),) = await read_stream(nc, settings.streams.held.name)
        counted = await read_metric(router.ready.http, "router_results_held_total")
    assert (event["cost"], event["told_cost"], counted) == (FACTOR * EXPECTED, 1e9, 1)
    assert (subject, json.loads(held)) == ("beamline.usage.v1.held.acme", event)
    assert alerts.causes("warning") == ["cost_held:acme"]


async def test_a_cost_within_the_bound_is_believed(
    nc: Client, settings: Settings, policies: Path
) -> None:
    async with a_router(settings, policies):
        ids = await _assign(nc, settings, 1)
        await _tell(nc, settings, **ids, cost=FACTOR * EXPECTED)
        (event,) = await _read_usage(nc, settings)
        assert await read_stream(nc, settings.streams.held.name) == []
    assert (event["cost"], "told_cost" in event) == (FACTOR * EXPECTED, False)


async def test_the_result_of_an_unknown_assignment_is_marked_on_default_settings(
    nc: Client, settings: Settings, policies: Path
) -> None:
    async with a_router(settings, policies):
        await _tell(
            nc, settings, assignment_id="forged", request_id="r", tenant_id="acme", cost=1e9
        )
        (event,) = await _read_usage(nc, settings)
    assert (event["correlated"], event["cost"], "event_id" in event) == (False, 1e9, False)


async def test_a_result_before_its_assignment_is_marked_and_takes_no_bill_away(
    nc: Client, settings: Settings, policies: Path
) -> None:
    """The id follows from the request, so it can be guessed before there is an assignment."""
    async with a_router(settings, policies):
        ids = {
            "assignment_id": assignment_id_of("acme", "r-1"),
            "request_id": "r-1",
            "tenant_id": "acme",
        }
        await _tell(nc, settings, **ids, cost=0.0)
        assert await _assign(nc, settings, 1) == ids
        await _tell(nc, settings, **ids, cost=0.01)
        early, billed = await _read_usage(nc, settings)
    assert (early["correlated"], "event_id" in early) == (False, False)
    assert (billed["event_id"], billed["cost"]) == (
        assignment_identity("acme", ids["assignment_id"]),
        0.01,
    )


async def test_a_result_after_its_assignments_record_has_gone_is_no_second_bill(
    nc: Client, settings: Settings, policies: Path
) -> None:
    async with a_router(settings, policies):
        ids = await _assign(nc, settings, 1)
        await _tell(nc, settings, **ids, cost=0.01)
    await nc.jsm().purge_stream(f"KV_{settings.buckets.assignments_known.name}")
    async with a_router(settings, policies):  # it remembers nothing
        await _tell(nc, settings, **ids, status="error", cost=0.01)
        bills = [
            event for event in await _read_usage(nc, settings) if event.get("correlated", True)
        ]
    assert [event["status"] for event in bills] == ["success"]


@pytest.mark.parametrize("off_ms", [-20 * DAY_MS, -HOUR_MS, HOUR_MS, DAY_MS - HOUR_MS])
async def test_a_worker_moves_no_bill_into_another_period(
    nc: Client, settings: Settings, policies: Path, off_ms: int
) -> None:
    """Work is done between its request and its result, whatever the worker's clock says."""
    async with a_router(settings, policies) as router:
        begun_ms = now_ms()
        ids = await _assign(nc, settings, 1)
        await _tell(nc, settings, **ids, cost=0.01, timestamp=now_ms() + off_ms)
        (event,) = await _read_usage(nc, settings)
        counted = await read_metric(
            router.ready.http, "router_results_overruled_total", field="timestamp"
        )
    assert begun_ms <= event["timestamp"] <= now_ms()
    assert counted == 1


async def test_a_clock_that_is_some_seconds_off_is_believed(
    nc: Client, settings: Settings, policies: Path
) -> None:
    async with a_router(settings, policies) as router:
        ids = await _assign(nc, settings, 1)
        told = now_ms() - 5_000
        await _tell(nc, settings, **ids, cost=0.01, timestamp=told)
        (event,) = await _read_usage(nc, settings)
        counted = await read_metric(
            router.ready.http, "router_results_overruled_total", field="timestamp"
        )
    assert (event["timestamp"], counted) == (told, 0)


@pytest.mark.parametrize("by", ["the same router", "another router"])
async def test_a_success_after_a_timeout_corrects_the_bill(
    nc: Client, settings: Settings, policies: Path, by: str
) -> None:
    async with a_router(settings, policies):
        ids = await _assign(nc, settings, 1)
        await _tell(nc, settings, **ids, status="timeout", cost=0.0)
        if by == "the same router":
            await _correct(nc, settings, ids)
    if by == "another router":
        async with a_router(settings, policies):
            await _correct(nc, settings, ids)
    billed, adjustment = await _read_usage(nc, settings)
    assert (billed["status"], billed["cost"]) == ("timeout", 0.0)
    assert (adjustment["event_type"], adjustment["adjustment"], adjustment["cost"]) == (
        "usage.adjustment",
        "outcome",
        0.03,
    )
    assert (adjustment["adjusts"], adjustment["provider_id"], adjustment["timestamp"]) == (
        billed["event_id"],
        "openai",
        billed["timestamp"],
    )


async def _correct(nc: Client, settings: Settings, ids: Json) -> None:
    """The first correction counts, and it counts once."""
    await _tell(nc, settings, **ids, status="timeout", cost=0.5)
    await _tell(nc, settings, **ids, status="success", cost=0.03)
    await _tell(nc, settings, **ids, status="success", cost=0.03)
    await _tell(nc, settings, **ids, status="error", cost=0.01)


async def test_one_free_success_does_not_make_a_provider_free(
    nc: Client, settings: Settings, policies: Path
) -> None:
    async with a_router(settings, policies):
        ids = await _assign(nc, settings, 1)
        await _tell(nc, settings, **ids, cost=0.0)
        answer = await ask(nc, settings, a_request("next"))
    assert answer["decision"]["expected_cost"] >= 0.9 * EXPECTED


async def _assign(nc: Client, settings: Settings, number: int) -> Json:
    """Have an assignment made; the ids that its result names."""
    answer = await ask(nc, settings, a_request(number, push_assignment=True))
    assert answer["ok"], answer
    (_, data, _), *_ = reversed(await read_stream(nc, settings.streams.assignments.name))
    assigned = json.loads(data)
    return {name: assigned[name] for name in ("assignment_id", "request_id", "tenant_id")}


async def _tell(nc: Client, settings: Settings, **fields: Any) -> None:
    """Report it, and wait until it is settled."""
    await publish_result(nc, settings, a_result("told", **fields))
    await until(lambda: results_are_settled(nc, settings))


async def _read_usage(nc: Client, settings: Settings) -> list[Json]:
    """Bills and adjustments."""
    stored = await read_stream(nc, settings.streams.usage.name)
    assert {subject for subject, _, _ in stored} <= {USAGE_SUBJECT, ADJUSTED_SUBJECT}
    return [json.loads(data) for _, data, _ in stored]
