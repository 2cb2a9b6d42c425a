"""What was spent of one budget in one window: a document of the bucket `ROUTER_BUDGETS_SPENT`
(docs/reference/budgets.md#slices).

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

from typing import Annotated

from msgspec import Meta, Struct

from router.contracts.stored_record import RecordKind
from router.core import ids
from router.core.errors import Poison

MAX_LEASES = 2000  # of one document: it stays far below a server's largest message
SETTLEMENT_KEY = "settlement"

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


class SettlementRecord(Struct, frozen=True):
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


read_settlement_record = RecordKind(SettlementRecord, "the record of the settlement").read
_read = RecordKind(SpentRecord, "a record of what was spent").read
