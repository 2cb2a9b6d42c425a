"""What becomes of the document of a budget and window. Pure: each function takes a record and
returns the changed one.

available = amount - settled - all that leases hold       what a lease may take
a reservation stays in `held` until its usage event moves its cost to `settled`, or the lease
expires
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from router.budgets.model.spent_record import MAX_LEASES, SpentLease, SpentRecord


class LeaseGrant(Struct, frozen=True):
    """The record afterwards, what the lease got, and what is left for others. Nanos."""

    record: SpentRecord
    granted: int
    left: int


class SettledCost(Struct, frozen=True):
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


def settle_costs(record: SpentRecord, timeline: str, costs: Iterable[SettledCost]) -> SpentRecord:
    """Add the costs of events that are not in it yet. `costs`: in the order of the stream, their
    sequences of this timeline.
    """
    missing = [cost for cost in costs if not _has_settled(record, timeline, cost)]
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


def _has_settled(record: SpentRecord, timeline: str, cost: SettledCost) -> bool:
    """By the sequence; by the stored time where the record counts another timeline: that of a copy
    of the stream, or of a later stream.
    """
    return (
        cost.sequence <= record.through
        if record.timeline == timeline
        else cost.stored_ns <= record.stored_ns
    )


def _end_reservations(
    leases: Mapping[str, SpentLease], costs: Iterable[SettledCost]
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
