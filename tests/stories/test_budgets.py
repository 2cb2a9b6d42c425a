"""Budgets on a real server: what fits is decided, what does not is denied or decided by another
policy, and each event is settled once.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path

import orjson
import pytest
from nats.aio.client import Client

from router.budgets import booking
from router.budgets.model.spent_record import BOOKING_KEY
from router.contracts.money import format_nanos
from router.lake.reconcile.budgets import read_sums
from router.lake.source.options import read_options
from router.operate.recovery.backup import restore_snapshot, take_snapshot
from tests.support.budgets import BudgetTown, serve_assignments, write_policies
from tests.support.made_anew import create_stream
from tests.support.router_streams import AlertRecorder, publish_result, read_usage
from tests.support.service import a_router, settings_for
from tests.support.stories import Json, list_keys
from tests.support.waiting import until
from tests.support.workers import a_body


@pytest.fixture
async def town(nc: Client, nats_url: str, prefix: str, tmp_path: Path) -> AsyncIterator[BudgetTown]:
    policies = write_policies(tmp_path)
    every = [settings_for(nats_url, prefix, node_id=f"node-{number}") for number in (1, 2)]
    await serve_assignments(nc, every[0])
    async with AsyncExitStack() as stack:
        yield BudgetTown(
            nc,
            [await stack.enter_async_context(a_router(settings, policies)) for settings in every],
            nats_url,
        )


async def test_what_a_budget_has_no_room_for_is_denied_and_settled_is_the_sum_of_the_events(
    town: BudgetTown,
) -> None:
    """T25 in small, with one router and no kill."""
    alerts = await AlertRecorder.heard_on(town.nc)
    await town.put("--amount", "0.2", "--window", "month")
    answers = [await town.ask(number) for number in range(30)]
    decided = sum(answer["ok"] for answer in answers)
    refused: list[Json] = [answer["error"] for answer in answers if not answer["ok"]]
    assert {error["code"] for error in refused} == {"budget_exceeded"}
    assert refused[-1]["details"]["budget"] == "month"
    assert refused[-1]["details"]["amount"] == "0.2"
    assert refused[-1]["details"]["renews_at"].endswith("-01T00:00:00Z")
    assert refused[-1]["details"]["retry_after_ms"] > 0

    shown = await town.wait_until_settled("month", decided)
    usage = await read_usage(town.nc, town.routers[0].settings)
    assert Decimal(shown["settled"]) == sum(Decimal(str(event["cost"])) for event in usage)
    assert Decimal("0.15") <= Decimal(shown["settled"]) <= Decimal("0.2")
    assert await read_settled(town) == [(shown["settled"], decided, "month")]
    await until(lambda: len(alerts.causes("warning")) == 2, what="both notices")
    assert sorted(cause.partition(":")[0] for cause in alerts.causes("warning")) == [
        "budget_100",
        "budget_80",
    ]


async def read_settled(town: BudgetTown) -> list[tuple[str, int, str]]:
    """As `router usage reconcile` reads it."""
    settings = town.routers[0].settings
    options = read_options({"url": settings.nats.url[0], "stream": settings.streams.usage.name})
    found = await asyncio.to_thread(
        read_sums, options, settings.buckets.budgets.name, settings.buckets.budgets_spent.name
    )
    return [
        (format_nanos(one.settled), one.events, one.budget_id)
        for one in found
        if one.through <= one.complete
    ]


async def test_a_budget_without_room_lets_the_policy_that_it_names_decide(town: BudgetTown) -> None:
    await town.put(
        "--amount", "0.05", "--window", "day", "--policy", "default", "--then", "downgrade:cheap"
    )
    decisions = [(await town.ask(number))["decision"] for number in range(12)]
    cheap = [one for one in decisions if one["provider_id"] == "b"]
    assert len(cheap) >= 7
    assert {(one["metadata"]["policy_id"], one["metadata"]["downgraded_by"]) for one in cheap} == {
        ("cheap", "day/policy=default")
    }


async def test_there_is_no_second_downgrade(town: BudgetTown) -> None:
    await town.put(
        "--amount", "0.02", "--window", "day", "--policy", "default", "--then", "downgrade:cheap"
    )
    await town.put(
        "--amount", "0.02", "--window", "day", "--policy", "cheap", "--then", "downgrade:default"
    )
    answers = [await town.ask(number) for number in range(12)]
    assert {answer["error"]["code"] for answer in answers[-4:]} == {"budget_exceeded"}


async def test_a_budget_counts_what_its_window_spent_before_it_was_put(town: BudgetTown) -> None:
    for number in range(6):
        assert (await town.ask(number))["ok"]
    await town.wait_until_metered(6)
    await town.put("--amount", "0.08", "--window", "month")
    answers = [await town.ask(f"later-{number}") for number in range(6)]
    assert sum(answer["ok"] for answer in answers) <= 2


async def test_a_result_that_is_repeated_is_settled_once_and_a_drained_router_gives_its_slice_back(
    town: BudgetTown,
) -> None:
    await town.put("--amount", "10", "--window", "month")
    decision = await town.ask("one")
    await town.wait_until_metered(1)
    (event,) = await read_usage(town.nc, town.routers[0].settings)
    again = a_body(
        **{
            name: event[name]
            for name in ("assignment_id", "request_id", "tenant_id", "cost", "latency_ms", "status")
        }
    )
    await publish_result(town.nc, town.routers[0].settings, orjson.dumps(again))
    assert decision["ok"]
    assert (await town.ask("two"))["ok"]
    shown = await town.wait_until_settled("month", 2)
    assert (shown["settled"], shown["left"]) == (
        "0.02",
        str(Decimal("9.98") - Decimal(shown["reserved"])),
    )
    assert Decimal(shown["reserved"]) > 0
    for router in town.routers:
        await router.stop()
    assert (await town.command("show", "acme", "month"))["reserved"] == "0"


async def test_a_usage_stream_that_was_made_anew_is_settled_from_its_first_event(
    town: BudgetTown,
) -> None:
    """What was settled before stays settled; the sequences begin at 1 again."""
    await town.put("--amount", "10", "--window", "month")
    await town.spend(range(3))
    await town.wait_until_settled("month", 3)
    async with town.lose_usage() as (jetstream, config):
        await create_stream(jetstream, config["name"], config)
    await town.spend(range(3, 5))
    assert (await town.wait_until_settled("month", 5))["settled"] == "0.05"
    await town.spend(range(5, 9))
    assert (await town.wait_until_settled("month", 9))["settled"] == "0.09"
    assert await read_settled(town) == [("0.09", 9, "month")]


async def test_a_stream_that_lost_its_end_counts_each_event_once_and_none_is_skipped(
    town: BudgetTown,
) -> None:
    """It is restored from a backup that is older than the documents: their last sequences belong to
    other events then.
    """
    await town.put("--amount", "10", "--window", "month")
    await town.spend(range(3))
    await town.wait_until_settled("month", 3)
    saved: list[bytes] = []
    async with town.open_jetstream() as jetstream:
        snapshot = await take_snapshot(jetstream, town.usage, saved.append)
    await town.spend(range(3, 6))
    await town.wait_until_settled("month", 6)
    async with town.lose_usage() as (jetstream, config):
        await restore_snapshot(jetstream, config["name"], snapshot, saved)
    await town.spend(range(6, 11))
    assert (await town.wait_until_settled("month", 11))["settled"] == "0.11"


async def test_a_document_that_cannot_be_read_is_counted_anew(
    town: BudgetTown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a router of another version may write it while this one settles."""
    monkeypatch.setattr(booking, "CHECK_S", 0.5)
    await town.put("--amount", "10", "--window", "month")
    for number in range(3):
        assert (await town.ask(number))["ok"]
    await town.wait_until_settled("month", 3)
    spent_name = town.routers[0].settings.buckets.budgets_spent.name
    spent = await town.nc.jetstream().key_value(spent_name)
    (key,) = (key for key in await list_keys(town.nc, spent_name) if key != BOOKING_KEY)
    await spent.put(key, b'{"settled": 1, "is_counted": true}')
    assert (await town.wait_until_settled("month", 3))["settled"] == "0.03"
    assert (await town.ask("then"))["ok"]
    assert (await town.wait_until_settled("month", 4))["settled"] == "0.04"
