"""What a tenant owes by the ledger, and what it was billed by the usage events. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal

from msgspec import Struct

from tests.rigs.money.events import MONEY_ADJUSTMENTS, Event
from tests.rigs.money.ledger import Call, End, Work
from tests.rigs.money.prices import PRICES, UnitPrice


class Bill(Struct, frozen=True, kw_only=True):
    """One tenant at the end.

    `surplus`: attempts that are recorded before their call and reached no provider, because
    something died between the two; only requests that their client saw fail may have one.
    `missing`: calls that no event stands for. `twice`: events beyond those. `lost`: streams by
    token that a kill cut: nothing but their recorded attempts tells of them, so they are left out
    of `owed` and `billed`, and each must have cost something.
    """

    tenant: str
    owed: Decimal
    billed: Decimal
    booked: Decimal  # all events of the tenant that are money
    surplus: Decimal
    covered: Decimal  # calls under the ids of assignments, which their results may cover
    slack: Decimal  # one piece of each stream that was cut, and what an estimate may be off
    missing: int
    twice: int
    lost: int
    events: int  # that count in budgets
    jobs: int
    calls: int
    held: int
    marked: int

    @property
    def difference(self) -> Decimal:
        """Billed above what is owed, without what is recorded and was never called."""
        return self.billed - self.surplus - self.owed


class _Owed(Struct):
    money: Decimal = Decimal(0)
    covered: Decimal = Decimal(0)
    slack: Decimal = Decimal(0)


# the estimate of a few streams; that of many is what `streams` looks at
ONE_IS_OFF_BY = Decimal("0.05")


class Seen(Struct, frozen=True):
    """What clients saw, by names of requests. `failed`: at least once, or had no answer; `left` is
    among them.

    `lost`: streams that fell silent; `left`: that their reader left, so that it did not see whether
    a kill came before their event.
    """

    failed: Collection[str]
    lost: Collection[str]
    left: Collection[str] = ()


def make_bills(
    tenants: Iterable[str], work: Work, events: Iterable[Event], seen: Seen
) -> dict[str, Bill]:
    """By tenant."""
    by_tenant: dict[str, list[Event]] = {}
    for event in events:
        by_tenant.setdefault(event.tenant, []).append(event)
    calls: dict[str, list[Call]] = {}
    for call in work.calls:
        calls.setdefault(call.tenant, []).append(call)
    jobs: dict[str, dict[str, Decimal]] = {}
    for job in work.jobs.values():
        jobs.setdefault(job.tenant, {})[job.assignment_id] = job.owed
    return {
        tenant: _make_bill(
            tenant,
            jobs.get(tenant, {}),
            calls.get(tenant, []),
            work.ends,
            by_tenant.get(tenant, []),
            seen=seen,
        )
        for tenant in tenants
    }


def _make_bill(
    tenant: str,
    jobs: Mapping[str, Decimal],
    calls: list[Call],
    ends: Mapping[str, End],
    events: list[Event],
    *,
    seen: Seen,
) -> Bill:
    lost = _find_lost(calls, events, seen)
    owed = _sum_owed(jobs, [call for call in calls if call.name not in lost], ends)
    counted = [event for event in events if not event.is_marked]
    booked = [
        event
        for event in counted
        if event.adjustment is None or event.adjustment in MONEY_ADJUSTMENTS
    ]
    first = [event for event in counted if event.adjustment is None]
    surplus, missing, twice = _compare_names(jobs, calls, first, seen, lost)
    free = sum(event.reference in lost and not event.cost for event in first)
    return Bill(
        tenant=tenant,
        owed=owed.money,
        billed=sum((event.cost for event in booked if event.reference not in lost), Decimal(0)),
        booked=sum((event.cost for event in booked), Decimal(0)),
        surplus=surplus,
        covered=owed.covered,
        slack=owed.slack,
        missing=missing + free,
        twice=twice,
        lost=len(lost),
        events=len(booked),
        jobs=len(jobs),
        calls=len(calls),
        held=sum(event.is_held for event in first),
        marked=sum(event.is_marked for event in events),
    )


def _find_lost(calls: list[Call], events: list[Event], seen: Seen) -> set[str]:
    """Streams by token whose end no router saw: an event at their deadline stands for what their
    record knew.
    """
    at_deadline = {
        event.reference for event in events if event.status == "timeout" and event.is_estimated
    }
    by_token = {call.name for call in calls if not PRICES[call.provider].is_flat}
    return {
        name
        for name in by_token
        if name in seen.lost or (name in seen.left and name in at_deadline)
    }


def _sum_owed(jobs: Mapping[str, Decimal], calls: list[Call], ends: Mapping[str, End]) -> _Owed:
    """One call under an assignment's id may be covered by its result, or be billed beside it where
    the result was first.
    """
    owed, open_jobs = _Owed(sum(jobs.values(), Decimal(0))), set(jobs)
    for call in calls:
        money, slack = price_of(PRICES[call.provider], ends.get(call.number))
        if call.name in open_jobs:
            open_jobs.discard(call.name)
            owed.covered += money
        else:
            owed.money += money
            owed.slack += slack
    return owed


def price_of(price: UnitPrice, end: End | None) -> tuple[Decimal, Decimal]:
    """What a call costs by its price, and how far its bill may be off: nothing where its usage was
    told, or a call has one price.
    """
    if end is None:
        return price.per_request, Decimal(0)
    money = price.cost(end.input, end.cached, end.output)
    if end.is_told or price.is_flat:
        return money, Decimal(0)
    return money, price.cost(0, 0, end.last_piece) - price.per_request + money * ONE_IS_OFF_BY


def _compare_names(
    jobs: Mapping[str, Decimal],
    calls: list[Call],
    events: list[Event],
    seen: Seen,
    lost: Collection[str],
) -> tuple[Decimal, int, int]:
    """Money recorded and never called; calls without an event; events without a call or an
    assignment.
    """
    called = Counter(call.name for call in calls)
    metered: dict[str, list[Event]] = {}
    for event in events:
        metered.setdefault(event.reference, []).append(event)
    surplus, missing, twice = Decimal(0), 0, 0
    for name in called.keys() | jobs.keys() | metered.keys():
        stored, least, most = (
            metered.get(name, []),
            max(called[name], name in jobs),
            called[name] + (name in jobs),
        )
        missing += max(0, least - len(stored))
        spare = sorted(stored, key=_is_whole)[: max(0, len(stored) - most)]
        if name in seen.failed and not any(map(_is_whole, spare)):
            surplus += sum((event.cost for event in spare if name not in lost), Decimal(0))
        else:
            twice += len(spare)
    return surplus, missing, twice


def _is_whole(event: Event) -> bool:
    """Not an attempt that was recorded, and of which no router saw the end."""
    return not event.is_invocation or event.status == "success"
