"""What becomes of slices while the documents of their budgets cannot be changed, on a real server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from nats.aio.client import Client

from router.budgets import leases as budget_leases
from router.budgets.leases import BudgetLeases
from router.budgets.model import (
    Budget,
    BudgetSlice,
    BudgetTable,
    BudgetWindow,
    SliceShort,
    find_window,
)
from router.budgets.model.spent_record import SpentRecord
from router.budgets.spent_documents import SpentDocument, SpentDocuments
from router.core.clock import wall
from router.core.errors import BrokerUnavailable
from router.delivery.wire.api import JetStream
from router.delivery.wire.server_clock import ServerClock
from router.operate.alerts import Alerts
from tests.support.beside import beside
from tests.support.delivery import connected
from tests.support.waiting import until

MOST_LOOKS = 100  # in a tenth of a second: a loop that never waits looks thousands of times
AMOUNT = 10**12
SHARE = 0.01


class CountedLooks(dict):  # type: ignore[type-arg]
    """The tenants of a table; it raises where a task looks at them without ever waiting, for that
    would end the test's loop too.
    """

    looks = 0

    def __len__(self) -> int:
        self.looks += 1
        assert self.looks <= MOST_LOOKS, "it never waits"
        return super().__len__()


class PickyDocuments(SpentDocuments):
    """Documents of budgets by `refused`, a window, cannot be changed. `asked`: the window of each
    change. `moment`: where the first writes of several instances wait for one another.
    """

    refused = ""
    moment: asyncio.Barrier | None = None
    writes = 0

    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        super().__init__(jetstream, bucket)
        self.asked: list[str] = []

    async def change(
        self,
        budget: Budget,
        window: BudgetWindow,
        change: Callable[[SpentRecord], SpentRecord | None],
    ) -> SpentRecord:
        self.asked.append(budget.window)
        if budget.window == self.refused:
            raise BrokerUnavailable(f"{budget.window} is written too often")
        return await super().change(budget, window, change)

    async def write(self, document: SpentDocument, record: SpentRecord) -> int:
        moment, self.moment = self.moment, None
        if moment is not None:
            await moment.wait()
        self.writes += 1
        return await super().write(document, record)


class Leases:
    """A table and what leases for it; `documents` are in a bucket of the test's own."""

    def __init__(self, jetstream: JetStream, bucket: str, life: str = "life") -> None:
        clock = ServerClock(jetstream, f"KV_{bucket}")
        self.jetstream, self.bucket = jetstream, bucket
        self.table = BudgetTable(life, SHARE, clock)
        self.documents = PickyDocuments(jetstream, bucket)
        self.leases = BudgetLeases(self.table, self.documents, clock, Alerts("test", 60.0), 600.0)

    def put(self, *windows: str) -> Sequence[BudgetSlice]:
        self.table.replace(
            [Budget(tenant_id="acme", amount=AMOUNT, window=window) for window in windows]
        )
        return list(self.table.slices.values())

    async def count(self, budget: Budget) -> None:
        """As the settlement does it, for a window without usage events."""
        document = await self.documents.open(budget, find_window(budget.window, wall()))
        await self.documents.write(document, SpentRecord(is_counted=True, timeline="the stream"))


@pytest.fixture
async def leases(nc: Client, nats_url: str, prefix: str) -> AsyncIterator[Leases]:
    async with connected(nats_url) as connection:
        await nc.jetstream().create_key_value(bucket=prefix)
        yield Leases(JetStream(connection), prefix)
        await nc.jetstream().delete_key_value(prefix)


@asynccontextmanager
async def at_work(leases: Leases) -> AsyncIterator[asyncio.Task[None]]:
    async with beside(leases.leases.run()) as task:
        yield task


async def test_the_last_budget_may_go_while_its_bucket_gives_no_answer(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_leases, "LOOK_S", 0.1)
    leases.documents.refused = "month"
    leases.table.tenants = looked = CountedLooks()
    (one,) = leases.put("month")
    async with at_work(leases) as task:
        one.request(1)
        await until(lambda: looked.looks > 2)
        leases.put()
        looked.looks = 0
        await asyncio.wait({task}, timeout=0.1)
        assert not task.done() or task.exception() is None


async def test_a_request_that_waits_for_a_budget_that_goes_is_decided_without_it(
    leases: Leases,
) -> None:
    leases.documents.refused = "month"
    (one,) = leases.put("month")
    async with at_work(leases):
        one.request(1)
        waiting = asyncio.create_task(SliceShort([one]).wait())
        await asyncio.sleep(0)
        leases.put()
        await waiting


async def test_a_document_that_cannot_be_changed_costs_the_other_budgets_no_further_slice(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_leases, "LOOK_S", 0.01)
    leases.documents.refused = "month"
    day, month = leases.put("day", "month")
    await leases.count(day.budget)
    async with at_work(leases):
        for one in (month, day):
            one.request(1)
        await until(lambda: leases.documents.asked.count("month") > 3)
        assert leases.documents.asked.count("day") == 1
        assert day.remaining == day.size
        assert month.is_asked


async def test_of_two_instances_that_take_at_the_same_moment_the_second_takes_from_what_is_left(
    leases: Leases,
) -> None:
    """Both have read the same revision (docs/reference/budgets.md#same-moment)."""
    other = Leases(leases.jetstream, leases.bucket, "another")
    (one,), (another,) = leases.put("day"), other.put("day")
    await leases.count(one.budget)
    leases.documents.writes = 0
    leases.documents.moment = other.documents.moment = asyncio.Barrier(2)
    async with at_work(leases), at_work(other):
        one.request(1)
        another.request(1)
        await until(lambda: one.remaining and another.remaining)
        document = await leases.documents.open(one.budget, find_window("day", wall()))
        assert leases.documents.writes + other.documents.writes == 3
        assert document.record.held == one.remaining + another.remaining == 2 * one.size
    assert {name.partition(".")[0] for name in document.record.leases} == {"life", "another"}
