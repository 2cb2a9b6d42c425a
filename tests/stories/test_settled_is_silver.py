"""What is settled of budgets is what the lake has in silver: requests, results, usage events, the
tables on a disk, the comparison.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from nats.aio.client import Client

from router.lake.reconcile import ReconcileCheck, reconcile
from router.lake.reconcile.budgets import BUDGETS_CHECK, read_sums
from router.lake.source.broker import read_facts
from router.lake.source.fetch import read_record_batches
from router.lake.source.offset import SequenceRange, StreamState
from router.lake.source.options import SourceOptions, read_options
from tests.lake.without_jvm import IN_PROCESS
from tests.rigs.faults.budget_stage import cost_of
from tests.support.budgets import BudgetTown, serve_assignments, write_policies
from tests.support.lake import ARROW
from tests.support.lake_jobs import Lake
from tests.support.router_streams import a_result, headers_of, publish_result, read_usage
from tests.support.service import a_router, settings_for
from tests.support.waiting import until
from tests.support.workers import a_body

REQUESTS = 24


@pytest.fixture
async def town(nc: Client, nats_url: str, prefix: str, tmp_path: Path) -> AsyncIterator[BudgetTown]:
    policies = write_policies(tmp_path)
    every = [settings_for(nats_url, prefix, node_id=f"node-{number}") for number in (1, 2)]
    await serve_assignments(nc, every[0], cost_of)
    async with AsyncExitStack() as stack:
        yield BudgetTown(
            nc,
            [await stack.enter_async_context(a_router(settings, policies)) for settings in every],
            nats_url,
        )


async def test_what_is_settled_of_each_budget_is_in_silver_to_the_last_decimal(
    town: BudgetTown, tmp_path: Path
) -> None:
    await town.put("--amount", "100", "--window", "month")
    await town.put(
        "--amount", "0.1", "--window", "month", "--policy", "default", "--then", "downgrade:cheap"
    )
    await town.put("--amount", "100", "--window", "month", "--provider", "b")
    for number in range(REQUESTS):
        assert (await town.ask(number))["ok"]
    await town.wait_until_metered(REQUESTS)
    await repeat_a_result(town)
    await town.wait_until_settled("month", REQUESTS)
    await until(
        lambda: is_settled_by_both_policies(town),
        within_s=20,
        what="the other budgets are settled as far",
    )
    check = await asyncio.to_thread(compare_with_silver, town, tmp_path / "warehouse")
    assert (check.verdict, check.figures) == ("ok", {"budgets": 3, "left_out": 0, "differ": 0}), (
        check
    )


async def test_adjustments_and_marked_results_are_settled_as_silver_has_them(
    town: BudgetTown, tmp_path: Path
) -> None:
    for scope in (
        (),
        ("--policy", "default"),
        ("--policy", "cheap"),
        ("--provider", "a"),
        ("--provider", "b"),
    ):
        await town.put("--amount", "100", "--window", "month", *scope)
    for number in range(3):
        assert (await town.ask(number))["ok"]
    await town.wait_until_metered(3)
    await publish_result(
        town.nc, town.routers[0].settings, a_result("unknown", cost=1e9), headers_of("unknown")
    )
    await town.wait_until_metered(4)
    (first, *_) = await read_usage(town.nc, town.routers[0].settings)
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    await adjust(
        town,
        "usage",
        "--tenant",
        "acme",
        "--assignment",
        first["assignment_id"],
        "--amount",
        "-0.000000001",
    )
    await adjust(
        town,
        "usage",
        "--tenant",
        "acme",
        "--period",
        day,
        "--provider",
        "b",
        "--amount",
        "-12.345678901",
    )
    await adjust(
        town,
        "usage",
        "--tenant",
        "acme",
        "--period",
        day,
        "--provider",
        "a",
        "--policy",
        "cheap",
        "--amount",
        "7.1",
    )
    await adjust(town, "budget", "acme", "month/provider=b", "--amount", "3.3")
    for name, events in (
        ("month", 6),
        ("month/policy=default", 4),
        ("month/policy=cheap", 1),
        ("month/provider=a", 5),
        ("month/provider=b", 2),
    ):
        await town.wait_until_settled(name, events)
    assert (await town.command("show", "acme", "month/provider=b"))["settled"] == "-9.045678901"
    check = await asyncio.to_thread(compare_with_silver, town, tmp_path / "warehouse")
    assert (check.verdict, check.figures) == ("ok", {"budgets": 5, "left_out": 0, "differ": 0}), (
        check
    )


async def adjust(town: BudgetTown, what: str, *words: str) -> None:
    assert (await town.command("adjust", *words, "--reason", "ticket 81", what=what))["booked"]


async def is_settled_by_both_policies(town: BudgetTown) -> bool:
    """Each event is of one of these two budgets, and each of them has some."""
    by_default, by_cheap = [
        (await town.command("show", "acme", f"month/{one}"))["events"]
        for one in ("policy=default", "provider=b")
    ]
    return bool(by_default and by_cheap and by_default + by_cheap == REQUESTS)


async def repeat_a_result(town: BudgetTown) -> None:
    event = (await read_usage(town.nc, town.routers[0].settings))[0]
    again = a_body(
        **{
            name: event[name]
            for name in ("assignment_id", "request_id", "tenant_id", "cost", "latency_ms", "status")
        }
    )
    await publish_result(town.nc, town.routers[0].settings, orjson.dumps(again))


def compare_with_silver(town: BudgetTown, warehouse: Path) -> ReconcileCheck:
    """As `router usage reconcile` does, after `router usage ingest`; both without a JVM."""
    settings = town.routers[0].settings
    options = read_options({"url": settings.nats.url[0], "stream": settings.streams.usage.name})
    facts = read_facts(options)
    lake = Lake(IN_PROCESS, warehouse, facts)
    lake.batch(read_all(options, facts))
    settled = read_sums(options, settings.buckets.budgets.name, settings.buckets.budgets_spent.name)
    checks = reconcile(IN_PROCESS, lake.warehouse, budget_sums=settled).checks
    return next(check for check in checks if check.name == BUDGETS_CHECK)


def read_all(options: SourceOptions, facts: StreamState) -> pa.Table:
    return pa.Table.from_batches(
        read_record_batches(options, SequenceRange(1, facts.last + 1, facts.created), ARROW)
    )
