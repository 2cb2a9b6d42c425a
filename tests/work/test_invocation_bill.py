"""The bill of one invocation, where a bucket takes nothing."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from router.budgets.model.prices import PricedUsage
from router.contracts.provider_request import ProviderRequest
from router.contracts.usage import UsageEvent
from router.core.errors import BrokerUnavailable, RouterError, StorageFull
from router.work.invocations.invocation_bill import InvocationBill, OpenAttempt, TakenParts
from router.work.model.invocation_record import InvocationRecord, draw_attempt_id

REQUEST = ProviderRequest(provider_id="echo", tenant_id="acme", request_id="a-1", trace_id="t-1")
RECORD = InvocationRecord(
    attempt_id=draw_attempt_id(),
    tenant_id="acme",
    provider_id="echo",
    event_type="provider.invoke",
    request_id="a-1",
    trace_id="t-1",
    begun_ms=0,
    deadline_ms=1_000,
    assignment_id="a-1",
)


@pytest.mark.parametrize("error", [StorageFull("full"), BrokerUnavailable("away")])
async def test_an_attempt_that_cannot_become_its_assignments_bill_is_billed_by_itself(
    error: RouterError,
) -> None:
    stored: list[bool] = []

    async def take_over(*_: object) -> bool:
        raise error

    async def meter(
        record: InvocationRecord, event: UsageEvent, *, is_bill: bool, has_other_bill: bool
    ) -> bool:
        stored.append(is_bill)
        return True

    store = SimpleNamespace(meter=meter, forget=lambda _: None)
    parts = SimpleNamespace(
        store=store, claims=SimpleNamespace(take_over=take_over), clock=lambda: 0.0
    )
    priced = SimpleNamespace(conclude=lambda *_, **__: PricedUsage(nanos=1, estimated=False))
    bill = InvocationBill(REQUEST, "provider.invoke", cast("Any", parts))
    bill._attempt = OpenAttempt(
        RECORD,
        TakenParts(sequence=1),
        cast("Any", SimpleNamespace(header=None)),
        cast("Any", priced),
        0.0,
    )
    bill.end("success")
    assert await bill.close()
    assert stored == [False]
