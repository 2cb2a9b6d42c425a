"""What spends a budget is what its tenant's assignments cost, and what was booked wrongly is
corrected, on a real server.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import pytest
from nats.aio.client import Client

from tests.support.budgets import BudgetTown, serve_assignments, write_policies
from tests.support.router_streams import a_result, headers_of, publish_result, read_stream
from tests.support.service import a_router, settings_for
from tests.support.waiting import until

TOLD = ("settled", "events", "adjusted", "adjustments")
PROBES = count()


@pytest.fixture
async def town(nc: Client, nats_url: str, prefix: str, tmp_path: Path) -> AsyncIterator[BudgetTown]:
    policies = write_policies(tmp_path)
    settings = settings_for(nats_url, prefix, usage__uncorrelated="mark")
    await serve_assignments(nc, settings)
    async with AsyncExitStack() as stack:
        yield BudgetTown(
            nc, [await stack.enter_async_context(a_router(settings, policies))], nats_url
        )


async def test_a_result_of_an_unknown_assignment_spends_no_budget(town: BudgetTown) -> None:
    await town.put("--amount", "10", "--window", "month")
    await publish_result(
        town.nc, town.routers[0].settings, a_result("made-up", cost=1e9), headers_of("made-up")
    )
    await town.wait_until_metered(1)
    await town.spend(range(3))
    shown = await town.wait_until_settled("month", 3)
    assert (shown["settled"], shown["left"] != "0") == ("0.03", True)


REASON = ("--reason", "ticket 81")


async def test_a_budget_that_was_emptied_by_mistake_is_brought_back(town: BudgetTown) -> None:
    """Deleted and put again it counts the same events, the adjustments among them."""
    await town.put("--amount", "1", "--window", "month")
    await town.spend([1])
    await town.command("adjust", "acme", "month", "--amount", "5", *REASON)
    assert (await town.wait_until_settled("month", 2))["settled"] == "5.01"
    await until(lambda: is_decided(town, expected=False), within_s=20, what="the slice is used up")
    await town.command("adjust", "acme", "month", "--amount", "-5.005", *REASON)
    await until(lambda: is_decided(town, expected=True), within_s=20, what="the budget has room")
    shown = await town.command("show", "acme", "month")
    assert (shown["adjusted"], shown["adjustments"]) == ("-0.005", 2)
    await town.command("delete", "acme", "month")
    await town.put("--amount", "1", "--window", "month")
    again = await town.wait_until_settled("month", shown["events"])
    assert [again[name] for name in TOLD] == [shown[name] for name in TOLD]
    await until(lambda: is_decided(town, expected=True), within_s=20, what="the budget has room")


async def is_decided(town: BudgetTown, *, expected: bool) -> bool:
    """Whether a request that nothing works on is decided, or refused."""
    answer = await town.ask(f"probe-{next(PROBES)}", push_assignment=False)
    return answer["ok"] is expected


async def find_event(town: BudgetTown) -> dict[str, object]:
    await town.wait_until_metered(1)
    ((_, data, _),) = await read_stream(town.nc, town.usage)
    found: dict[str, object] = json.loads(data)
    return found


async def test_a_bill_is_corrected_in_every_budget_that_counts_it_and_ends_no_reservation(
    town: BudgetTown,
) -> None:
    for scope in (
        (),
        ("--policy", "default"),
        ("--policy", "cheap"),
        ("--provider", "a"),
        ("--provider", "b"),
    ):
        await town.put("--amount", "10", "--window", "month", *scope)
    await town.spend([1])
    event = await find_event(town)
    counting = ("month", "month/policy=default", "month/provider=a")
    words = (
        "adjust",
        "--tenant",
        "acme",
        "--assignment",
        str(event["assignment_id"]),
        "--amount",
        "-0.004",
        *REASON,
        "--id",
        "81",
    )
    assert (await town.command(*words, what="usage"))["budgets"] == list(counting)
    assert not (await town.command(*words, what="usage"))["booked"]
    for name in counting:
        assert (await town.wait_until_settled(name, 2))["settled"] == "0.006"
    for name in ("month/policy=cheap", "month/provider=b"):
        shown = await town.command("show", "acme", name)
        assert (shown["settled"], shown["events"]) == ("0", 0)
