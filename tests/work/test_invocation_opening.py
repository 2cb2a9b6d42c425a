"""What an attempt takes before its call, on a real server: its record and its assignment's claim go
out together, and go back together.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from router.budgets.invocation_budgets import InvocationBudgets
from router.budgets.model import BudgetTable
from router.budgets.model.prices import PriceTable, Pricing
from router.contracts.provider_request import ProviderRequest
from router.core.errors import BrokerUnavailable
from router.core.message import Effect
from router.delivery.publish.acked_publisher import NotPublished, PublishAcks, PublishCallback
from router.extensions.model.failure import InvocationRefused
from router.work.invocations.attempt_store import Patience
from router.work.invocations.invocation_bill import BillingParts, InvocationBill
from router.work.model.assignments import AssignmentLookup
from tests.support.waiting import until
from tests.support.workers import an_assignment
from tests.work.test_attempt_store import Bench
from tests.work.test_attempt_store import bench as bench  # noqa: PLC0414 - a fixture

REQUEST = ProviderRequest(
    provider_id="echo",
    tenant_id="acme",
    request_id="a-1",
    trace_id="t-1",
    metadata={"assignment_id": "a-1"},
)
KNOWN = an_assignment(
    assignment_id="a-1",
    request_id="r-1",
    tenant_id="acme",
    provider_id="echo",
    reservation="life 7 chat month#3",
)


def begin(bench: Bench) -> asyncio.Task[None]:
    parts = BillingParts(
        store=bench.store,
        patience=Patience(0.0),
        claims=bench.claims,
        assignments=cast("AssignmentLookup", SimpleNamespace(recall=lambda _: KNOWN)),
        budgets=InvocationBudgets(BudgetTable("life", 0.01, lambda: bench.now)),
        pricing=Pricing(PriceTable(), max_cost=10.0, unpriced=1.0, factor=100.0, floor=0.01),
        clock=lambda: bench.now,
        is_on=True,
    )
    return asyncio.create_task(InvocationBill(REQUEST, "provider.invoke", parts).begin(None, 5.0))


@pytest.fixture
async def open_bench(bench: Bench) -> AsyncIterator[Bench]:
    async with bench.claims.open():
        yield bench


async def test_no_claim_is_written_before_its_record_is_sent(
    open_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a router that dies between the two leaves a claim of an attempt that no record tells of:
    no other one could ever be the bill.
    """
    claims, counts = open_bench.claims._claims, list[int]()
    write = claims._write

    async def write_claim(key: str, value: bytes, headers: dict[str, str], last: int) -> int:
        await open_bench.nc.flush()
        await until(
            lambda: _has_records(open_bench, 1),
            what="the record is sent without waiting for the claim",
        )
        counts.append(await open_bench.count_records())
        return await write(key, value, headers, last)

    monkeypatch.setattr(claims, "_write", write_claim)
    await begin(open_bench)
    assert counts == [1]


@pytest.mark.parametrize("fails", ["claim", "record", "caller before", "caller meanwhile"])
async def test_what_was_taken_goes_back_where_the_rest_cannot_be_had(
    open_bench: Bench, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    claims = open_bench.claims
    is_stored, write, other = asyncio.Event(), claims._claims._write, "acme.another"

    async def store_and_wait(key: str, value: bytes, headers: dict[str, str], last: int) -> int:
        await write(key, value, headers, last)
        is_stored.set()
        return await asyncio.get_running_loop().create_future()

    with monkeypatch.context() as patch:
        if fails == "claim":
            patch.setattr(claims._claims, "_write", _fail)
        elif fails == "caller meanwhile":
            patch.setattr(claims._claims, "_write", store_and_wait)
        elif fails == "record":
            patch.setattr(open_bench.store, "keep", _refuse)
        beginning = begin(open_bench)
        if fails == "caller before":
            await asyncio.sleep(0)
            beginning.cancel()
        elif fails == "caller meanwhile":
            await asyncio.wait(
                [beginning, asyncio.create_task(is_stored.wait())],
                return_when=asyncio.FIRST_COMPLETED,
            )
            assert not beginning.done(), beginning.exception()
            await until(lambda: _has_records(open_bench, 1))
            beginning.cancel()
        with pytest.raises(
            asyncio.CancelledError if fails.startswith("caller") else InvocationRefused
        ):
            await beginning
    await until(lambda: _has_records(open_bench, 0), what="the record goes")
    await until(lambda: not claims.unsure, what="the claim goes")
    assert await claims.claim("a-1", other) is not None


async def test_a_caller_that_is_cancelled_beside_the_publish_ack_leaves_no_record(
    open_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one turn of the loop the record is stored, and its caller is cancelled."""
    publisher = open_bench.store._publisher
    assert publisher is not None
    publish = publisher.publish

    def publish_and_cancel(effects: Sequence[Effect], callback: PublishCallback) -> None:
        def take_and_cancel(result: PublishAcks | NotPublished) -> None:
            callback(result)
            beginning.cancel()

        publish(effects, take_and_cancel)

    monkeypatch.setattr(publisher, "publish", publish_and_cancel)
    beginning = begin(open_bench)
    with pytest.raises(asyncio.CancelledError):
        await beginning
    await until(lambda: _has_records(open_bench, 0), what="the record goes")


async def _fail(*_: object) -> int:
    raise BrokerUnavailable("away")


async def _refuse(_: object) -> int:
    await asyncio.sleep(0)
    raise InvocationRefused("overloaded", "not now", {})


async def _has_records(bench: Bench, count: int) -> bool:
    return await bench.count_records() == count
