"""The numbers of leases: what a slice has not used moves from the lease that is over to the next
one, and what is reserved stays.
"""

from collections.abc import AsyncIterator, Mapping
from typing import cast

import pytest
from nats.aio.client import Client

from router.budgets.leases import BudgetLeases
from router.budgets.model import Budget, BudgetSlice, BudgetTable, find_window
from router.budgets.model.spent_record import SpentLease, SpentRecord
from router.budgets.spent_documents import SpentDocuments
from router.delivery.wire.api import JetStream
from router.delivery.wire.server_clock import ServerClock
from tests.support.app import RecordedAlerts
from tests.support.delivery import connected

AMOUNT, SIZE = 10_000, 1_000
LEASE_S = 600.0
BEGINS_S = 1_790_000_000.0
MONTH = Budget(tenant_id="acme", amount=AMOUNT, window="month")
COUNTED = SpentRecord(is_counted=True, timeline="the stream")


class HeldClock:
    """The server's clock, moved by the test alone."""

    def __init__(self) -> None:
        self.at = BEGINS_S

    def __call__(self) -> float:
        return self.at

    async def read(self, max_age: float = 0.0) -> None: ...


class Lender:
    """One slice of one budget, whose document is in a bucket of the test's own."""

    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        self.clock, self.heard = HeldClock(), RecordedAlerts()
        self.table = BudgetTable("life", SIZE / AMOUNT, self.clock)
        self.documents = SpentDocuments(jetstream, bucket)
        clock = cast(ServerClock, self.clock)
        self.leases = BudgetLeases(self.table, self.documents, clock, self.heard.alerts, LEASE_S)
        self.table.replace([MONTH])
        (self.slice,) = self.table.slices.values()

    async def write(self, record: SpentRecord) -> None:
        document = await self.documents.open(MONTH, find_window("month", self.clock()))
        await self.documents.write(document, record)

    async def read(self) -> SpentRecord:
        return (await self.documents.read(MONTH, find_window("month", self.clock()))).record

    async def held(self) -> Mapping[str, int]:
        return {
            name: lease.held for name, lease in (await self.read()).leases.items() if lease.held
        }

    async def grow(self, need: int = 0) -> BudgetSlice:
        """Ask for a slice, and have the answer."""
        self.slice.request(need)
        await self.leases._work()
        return self.slice

    def end_lease(self) -> None:
        """The lease is over, and has not expired."""
        self.clock.at += LEASE_S + 1


@pytest.fixture
async def lender(nc: Client, nats_url: str, prefix: str) -> AsyncIterator[Lender]:
    async with connected(nats_url) as connection:
        await nc.jetstream().create_key_value(bucket=prefix)
        lender = Lender(JetStream(connection), prefix)
        await lender.write(COUNTED)
        yield lender
        await nc.jetstream().delete_key_value(prefix)


async def test_the_rest_of_a_slice_moves_to_the_lease_with_the_next_number(lender: Lender) -> None:
    one = await lender.grow()
    assert (one.number, one.remaining, await lender.held()) == (1, SIZE, {"life.1": SIZE})
    one.charge(250)
    lender.end_lease()
    await lender.grow()
    assert (one.number, one.remaining) == (2, SIZE + 750)
    assert await lender.held() == {"life.1": 250, "life.2": SIZE + 750}, (
        "what is reserved stays with its lease"
    )
    assert (await lender.read()).leases["life.2"].expires_ms == round(
        (lender.clock.at + 2 * LEASE_S) * 1000
    )


async def test_three_leases_follow_one_another_and_nothing_is_held_twice_or_lost(
    lender: Lender,
) -> None:
    one = await lender.grow()
    for number in (2, 3, 4):
        one.charge(100)
        lender.end_lease()
        await lender.grow()
        assert one.number == number
        held = await lender.held()
        assert held[f"life.{number}"] == one.remaining
    # Of the first two leases what was reserved has expired meanwhile.
    assert await lender.held() == {"life.3": 100, "life.4": 4 * SIZE - 300}


async def test_a_slice_whose_document_is_not_counted_yet_goes_back_to_the_lease_that_it_had(
    lender: Lender,
) -> None:
    one = await lender.grow()
    one.charge(250)
    before = await lender.read()
    await lender.write(SpentRecord())  # as after a value that cannot be read
    lender.end_lease()
    await lender.grow()
    assert (one.number, one.remaining, one.is_asked) == (1, 750, True)
    await lender.write(before)
    await lender.leases._work()
    assert (one.number, one.remaining, one.is_asked) == (2, SIZE + 750, False)
    assert await lender.held() == {"life.1": 250, "life.2": SIZE + 750}


async def test_a_slice_that_was_not_used_up_keeps_its_lease_while_the_document_is_not_counted(
    lender: Lender,
) -> None:
    one = await lender.grow()
    await lender.write(SpentRecord())
    await lender.grow()
    assert (one.number, one.remaining, one.lease_ends) == (1, SIZE, BEGINS_S + LEASE_S)


async def test_what_is_given_back_is_taken_from_the_lease_that_is_charged_and_the_next_one_has_another_number(
    lender: Lender,
) -> None:
    one = await lender.grow()
    one.charge(400)
    lender.end_lease()
    await lender.leases._work()  # it is not asked for: the rest goes back
    assert (one.remaining, await lender.held()) == (0, {"life.1": 400})
    await lender.grow()
    assert (one.number, one.remaining, await lender.held()) == (
        2,
        SIZE,
        {"life.1": 400, "life.2": SIZE},
    )


async def test_what_is_given_back_while_its_lease_runs_ends_that_lease(lender: Lender) -> None:
    one = await lender.grow()
    one.charge(400)
    await lender.leases._give_back([one])
    await lender.grow()
    assert (one.number, await lender.held()) == (2, {"life.1": 400, "life.2": SIZE})


@pytest.mark.parametrize(("need", "causes"), [(0, []), (1, []), (2, ["budget_100"])])
async def test_a_request_that_finds_no_room_is_told_and_a_slice_that_was_asked_for_ahead_is_not(
    lender: Lender, need: int, causes: list[str]
) -> None:
    taken = SpentLease(AMOUNT, round((BEGINS_S + 9 * LEASE_S) * 1000))
    await lender.write(
        SpentRecord(is_counted=True, timeline="the stream", leases={"other.1": taken})
    )
    one = await lender.grow(need)
    assert (one.remaining, one.left) == (0, 0)
    assert [cause.partition(":")[0] for cause in lender.heard.causes] == causes
    await lender.grow(need)
    assert len(lender.heard.causes) == len(causes), "once for a window"
    assert one.is_refused(max(1, need), lender.clock())
