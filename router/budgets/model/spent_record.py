"""What was spent of one budget in one window: a document of the bucket `ROUTER_BUDGETS_SPENT`
(docs/reference/budgets.md#slices), what becomes of it, and which usage events it counts.

    key      {tenant}.{budget}.{when the budget was made, ms}.{start of the window, s}
    value    {settled, events, adjusted, adjustments, timeline, through, stored_ns, is_mixed,
             is_counted, notices,
             leases{"{life}.{number}": {held, expires_ms}}}

Money is in nanos. A lease is what an instance may reserve or has reserved. The key `settlement`
says which instance settles, and how far.

A timeline names the sequences of one usage stream, as PostgreSQL's does after a restore: when the
stream was made, and a random part. A sequence of another timeline says nothing, so the time at
which an event was stored says whether it is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from router.budgets.model.budget import Budget
from router.budgets.model.reservation import BudgetReservation
from router.contracts.stored_record import RecordKind
from router.contracts.usage import UsageCost
from router.core import ids
from router.core.errors import Poison

MAX_LEASES = 2000  # of one document: it stays far below a server's largest message
BOOKING_KEY = "settlement"

_Count = Annotated[int, Meta(ge=0)]


class SpentLease(Struct, frozen=True):
    """`expires_ms`: by the server's clock, milliseconds since the epoch."""

    held: int
    expires_ms: int


class SpentRecord(Struct, frozen=True, kw_only=True):
    """`through`: the sequence of the last usage event in `settled`, in its timeline; `stored_ns`:
    when the latest was stored.

    `adjusted`: the part of `settled` that adjustments are, below 0 where they took off more;
    `adjustments`: how many there are. `is_mixed`: events of other timeline are in it as well;
    `is_counted`: the events before the first lease are in it.
    """

    settled: int = 0
    events: _Count = 0
    adjusted: int = 0
    adjustments: _Count = 0
    timeline: str = ""  # of every document that is counted
    through: _Count = 0
    stored_ns: _Count = 0
    is_mixed: bool = False
    is_counted: bool = False
    notices: tuple[int, ...] = ()  # percent
    leases: dict[str, SpentLease] = {}

    @property
    def held(self) -> int:
        return sum(lease.held for lease in self.leases.values())


class BookingRecord(Struct, frozen=True):
    """Who settles, and the last sequence of the usage stream whose event is in every document; when
    it was stored.
    """

    life: str
    timeline: str
    through: _Count
    stored_ns: _Count


def build_spent_key(tenant_id: str, budget_id: str, created_ms: int, starts_s: int) -> str:
    """The bucket's key of a budget's window."""
    return ids.key(tenant_id, budget_id, str(created_ms), str(starts_s))


def find_created(timeline: str) -> str:
    """When the usage stream of a timeline was made, as the server says it."""
    return timeline.partition(" ")[0]


def read_spent_record(data: bytes) -> SpentRecord:
    """Raises Poison."""
    record = _read(data)
    if record.is_counted and not record.timeline:
        raise Poison("a record of what was spent that does not say of which usage stream")
    return record


read_booking_record = RecordKind(BookingRecord, "the record of the settlement").read
_read = RecordKind(SpentRecord, "a record of what was spent").read


# -- What becomes of the document of a budget and window. Pure: each function takes a record and
# returns the changed one.
#
# available = amount - settled - all that leases hold       what a lease may take
# a reservation stays in `held` until its usage event moves its cost to `settled`, or the lease
# expires


class LeaseGrant(Struct, frozen=True):
    """The record afterwards, what the lease got, and what is left for others. Nanos."""

    record: SpentRecord
    granted: int
    left: int


class BookedCost(Struct, frozen=True):
    """One usage event of a budget: its sequence, when it was stored, its cost, and the reservation
    that it ends, if any.

    An adjustment's cost may be below 0.
    """

    sequence: int
    stored_ns: int
    nanos: int
    lease_id: str | None = None
    reserved: int = 0
    is_adjustment: bool = False


def expire_leases(record: SpentRecord, now_ms: int) -> SpentRecord:
    """Without the leases whose time is over, and those that hold nothing."""
    leases = {
        name: lease
        for name, lease in record.leases.items()
        if lease.expires_ms > now_ms and lease.held > 0
    }
    return record if len(leases) == len(record.leases) else replace(record, leases=leases)


def grant_lease(
    record: SpentRecord, amount: int, lease_id: str, lease: SpentLease, *, least: int
) -> LeaseGrant:
    """Let a lease hold `lease.held` more, or what there is; nothing where that is below `least`."""
    left = amount - record.settled - record.held
    granted = min(lease.held, left)
    present = record.leases.get(lease_id)
    if granted <= 0 or granted < least or (present is None and len(record.leases) >= MAX_LEASES):
        return LeaseGrant(record, 0, max(left, 0))
    held = granted + (present.held if present is not None else 0)
    leases = {**record.leases, lease_id: SpentLease(held, lease.expires_ms)}
    return LeaseGrant(replace(record, leases=leases), granted, left - granted)


def move_lease(
    record: SpentRecord, from_id: str, to_id: str, lease: SpentLease
) -> tuple[SpentRecord, int]:
    """Move `lease.held` from one lease to another that expires later; the record, and how much has
    moved.
    """
    present = record.leases.get(from_id)
    moved = min(lease.held, present.held) if present is not None else 0
    if present is None or moved <= 0:
        return record, 0
    target = record.leases.get(to_id)
    held = moved + (target.held if target is not None else 0)
    leases = {
        **record.leases,
        from_id: SpentLease(present.held - moved, present.expires_ms),
        to_id: SpentLease(held, lease.expires_ms),
    }
    return replace(record, leases=leases), moved


def return_lease(record: SpentRecord, lease_id: str, nanos: int) -> SpentRecord:
    """A lease holds so much less."""
    present = record.leases.get(lease_id)
    if present is None or nanos <= 0:
        return record
    held = max(0, present.held - nanos)
    leases = {**record.leases, lease_id: SpentLease(held, present.expires_ms)}
    return replace(record, leases=leases)


def book_costs(record: SpentRecord, timeline: str, costs: Iterable[BookedCost]) -> SpentRecord:
    """Add the costs of events that are not in it yet. `costs`: in the order of the stream, their
    sequences of this timeline.
    """
    missing = [cost for cost in costs if not _has_booked(record, timeline, cost)]
    if not missing:
        return record
    adjustments = [cost.nanos for cost in missing if cost.is_adjustment]
    return replace(
        record,
        settled=record.settled + sum(cost.nanos for cost in missing),
        events=record.events + len(missing),
        adjusted=record.adjusted + sum(adjustments),
        adjustments=record.adjustments + len(adjustments),
        timeline=timeline,
        through=missing[-1].sequence,
        stored_ns=max(record.stored_ns, missing[-1].stored_ns),
        is_mixed=record.is_mixed or (record.timeline != timeline and record.events > 0),
        leases=_end_reservations(record.leases, missing),
    )


def _has_booked(record: SpentRecord, timeline: str, cost: BookedCost) -> bool:
    """By the sequence; by the stored time where the record counts another timeline: that of a copy
    of the stream, or of a later stream.
    """
    return (
        cost.sequence <= record.through
        if record.timeline == timeline
        else cost.stored_ns <= record.stored_ns
    )


def _end_reservations(
    leases: Mapping[str, SpentLease], costs: Iterable[BookedCost]
) -> dict[str, SpentLease]:
    """What the leases hold when these events have ended their reservations."""
    left = dict(leases)
    for cost in costs:
        if cost.lease_id is not None and (lease := left.get(cost.lease_id)) is not None:
            left[cost.lease_id] = SpentLease(max(0, lease.held - cost.reserved), lease.expires_ms)
    return left


def open_next_window(before: SpentRecord, now_ms: int) -> SpentRecord:
    """The document of the window after `before`: nothing is settled, and what was held is held on."""
    return SpentRecord(
        is_counted=True, timeline=before.timeline, leases=expire_leases(before, now_ms).leases
    )


# -- Which usage events a budget counts, and what each of them ends
# (docs/reference/budgets.md#settlement). Pure.
#
# an outcome                    in every budget of its tenant, provider and policy; its first event
#                               ends its reservation
# an adjustment                 in the same budgets, with its signed cost; it ends nothing
# an adjustment `budget`        in the one budget that it names
# an outcome that is marked     in none: its assignment is not known, so a worker's word is all that
#                               there is of it


OF_ONE_BUDGET = "budget"  # the adjustment that is no money of a bill


def is_spending(cost: UsageCost) -> bool:
    """Whether it counts in any budget at all."""
    return cost.is_correlated or cost.adjustment is not None


def is_counted(budget: Budget, cost: UsageCost, reservation: BudgetReservation | None) -> bool:
    """Whether this budget counts it; by which policy was decided stands in the header of the event."""
    if cost.tenant_id != budget.tenant_id or not is_spending(cost):
        return False
    if cost.adjustment == OF_ONE_BUDGET:
        return cost.budget == budget.budget_id
    policy_id = reservation.policy_id if reservation is not None else None
    return budget.provider_id in (None, cost.provider_id) and budget.policy_id in (None, policy_id)


def make_booked_cost(
    budget: Budget,
    cost: UsageCost,
    sequence: int,
    stored_ns: int,
    *,
    ended: BudgetReservation | None = None,
) -> BookedCost:
    """What the budget's document takes of it; `ended`: the reservation that ends with it."""
    number = ended.leases.get(budget.budget_id) if ended is not None else None
    lease_id = f"{ended.life}.{number}" if ended is not None and number is not None else None
    reserved = ended.nanos if ended is not None else 0
    return BookedCost(
        sequence, stored_ns, cost.nanos, lease_id, reserved, cost.adjustment is not None
    )
