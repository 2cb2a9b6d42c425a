"""A result that costs nothing opens no budget: what is in flight counts at what the policy lists,
on a real server.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from tests.support.budgets import BudgetTown, serve_assignments, write_policies
from tests.support.service import a_router, settings_for

COST = 0.02
FITS = 50  # of them, in a budget of 1.00


@pytest.fixture
async def town(nc: Client, nats_url: str, prefix: str, tmp_path: Path) -> AsyncIterator[BudgetTown]:
    policies = write_policies(tmp_path, cost=COST)
    settings = settings_for(nats_url, prefix)
    async with a_router(settings, policies) as router:
        yield BudgetTown(nc, [router], nats_url)


async def test_one_free_result_lets_no_more_through_than_fits(town: BudgetTown) -> None:
    await town.put("--amount", "1", "--window", "month")
    at_work = await serve_assignments(town.nc, town.routers[0].settings, lambda _: 0.0)
    assert (await town.ask("free"))["ok"]
    await town.wait_until_settled("month", 1)
    await at_work.unsubscribe()  # the others are in flight until the end
    answers = await asyncio.gather(*(town.ask(number) for number in range(300)))
    assert sum(answer["ok"] for answer in answers) <= FITS
    assert {answer["error"]["code"] for answer in answers if not answer["ok"]} == {
        "budget_exceeded"
    }
