"""Up to which sequence a sum is complete: the settlement's word counts only where both are of one
timeline.
"""

from collections.abc import AsyncIterator

import msgspec
import pytest
from nats.aio.client import Client

from router.budgets.model import Budget, find_window
from router.budgets.model.spent_record import BOOKING_KEY, BookingRecord, SpentRecord
from router.budgets.spent_documents import (
    BudgetSum,
    SpentDocument,
    SpentDocuments,
    read_budget_sums,
)
from router.budgets.store import BudgetStore
from router.contracts.stored_record import record_bytes
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from tests.support.delivery import connected

FIRST, SECOND = "2026-11-20T00:00:00Z aaaa", "2026-11-21T00:00:00Z bbbb"
AT_S = 1_790_000_000
DAY = Budget(tenant_id="acme", amount=10**9, window="day")


class Sums:
    def __init__(self, jetstream: JetStream, budgets: str, spent: str) -> None:
        self._jetstream, self._names = jetstream, (budgets, spent)
        self.store = BudgetStore(DocumentBucket(jetstream, budgets))
        self.documents = SpentDocuments(jetstream, spent)

    async def write(self, record: SpentRecord, settlement: BookingRecord | None) -> None:
        await self.store.put(DAY, author="me")
        (stored,) = await self.store.list("acme")
        document = await self.documents.read(stored.budget, find_window("day", AT_S))
        await self.documents.write(SpentDocument(document.key, record, 0), record)
        if settlement is not None:
            await self.documents.bucket.put(
                BOOKING_KEY, msgspec.json.encode(settlement), revision=None
            )

    async def read(self) -> list[BudgetSum]:
        return await read_budget_sums(self._jetstream, *self._names)


@pytest.fixture
async def sums(nc: Client, nats_url: str, prefix: str) -> AsyncIterator[Sums]:
    names = f"{prefix}_B", f"{prefix}_S"
    async with connected(nats_url) as connection:
        for name in names:
            await nc.jetstream().create_key_value(bucket=name)
        yield Sums(JetStream(connection), *names)
        for name in names:
            await nc.jetstream().delete_key_value(name)


def a_record(timeline: str, through: int, **fields: object) -> SpentRecord:
    given = {
        "settled": 7,
        "events": 3,
        "is_counted": True,
        "timeline": timeline,
        "through": through,
        **fields,
    }
    return SpentRecord(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settlement", "complete"),
    [
        pytest.param(None, 40, id="no instance has settled yet"),
        pytest.param(
            BookingRecord("one", FIRST, 90, 0),
            90,
            id="the settlement is ahead: no event of this budget since",
        ),
        pytest.param(
            BookingRecord("one", FIRST, 30, 0),
            40,
            id="the document is ahead: the settlement's record comes last",
        ),
        pytest.param(
            BookingRecord("one", SECOND, 90, 0),
            40,
            id="another stream's sequences say nothing of this document",
        ),
        pytest.param(
            BookingRecord("one", SECOND, 10, 0), 40, id="another stream's lower sequences, too"
        ),
    ],
)
async def test_a_sum_is_complete_up_to_the_sequence_that_its_own_stream_was_settled_to(
    sums: Sums, settlement: BookingRecord | None, complete: int
) -> None:
    await sums.write(a_record(FIRST, 40), settlement)
    (one,) = await sums.read()
    assert (one.settled, one.events, one.through, one.complete, one.created) == (
        7,
        3,
        40,
        complete,
        "2026-11-20T00:00:00Z",
    )


@pytest.mark.parametrize("is_mixed", [False, True])
async def test_a_sum_into_which_another_streams_events_are_counted_says_so(
    sums: Sums, is_mixed: bool
) -> None:
    await sums.write(a_record(FIRST, 40, is_mixed=is_mixed), None)
    (one,) = await sums.read()
    assert one.is_mixed is is_mixed


async def test_a_document_that_is_not_counted_is_no_sum(sums: Sums) -> None:
    await sums.write(SpentRecord(), None)
    assert await sums.read() == []


async def test_a_settlement_that_cannot_be_read_leaves_each_document_its_own_word(
    sums: Sums,
) -> None:
    await sums.write(a_record(FIRST, 40), None)
    await sums.documents.bucket.put(BOOKING_KEY, b"{}", revision=None)
    (one,) = await sums.read()
    assert one.complete == 40


def test_a_record_is_its_own_bytes() -> None:
    record = a_record(FIRST, 40, is_mixed=True)
    assert msgspec.json.decode(record_bytes(record), type=SpentRecord) == record
