"""What spends a budget is what its tenant's assignments cost, and what was booked wrongly is corrected, on a real server."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from nats.aio.client import Client

from tests.support.budgets import BudgetTown, serve_assignments, write_policies
from tests.support.router_streams import a_result, headers_of, publish_result
from tests.support.service import a_router, settings_for


@pytest.fixture
async def town(nc: Client, nats_url: str, prefix: str, tmp_path: Path) -> AsyncIterator[BudgetTown]:
    policies = write_policies(tmp_path)
    settings = settings_for(nats_url, prefix, usage__uncorrelated="mark")
    await serve_assignments(nc, settings)
    async with AsyncExitStack() as stack:
        yield BudgetTown(nc, [await stack.enter_async_context(a_router(settings, policies))], nats_url)


async def test_a_result_of_an_unknown_assignment_spends_no_budget(town: BudgetTown) -> None:
    await town.put("--amount", "10", "--window", "month")
    await publish_result(town.nc, town.routers[0].settings, a_result("made-up", cost=1e9), headers_of("made-up"))
    await town.wait_until_metered(1)
    await town.spend(range(3))
    shown = await town.wait_until_settled("month", 3)
    assert (shown["settled"], shown["left"] != "0") == ("0.03", True)
