"""What a run of budgets must balance: settled is the sum of the usage events, little is overspent,
and nothing stays reserved.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from msgspec import Struct

from router.budgets.model.reservation import RESERVATION_HEADER, read_reservation
from router.contracts.money import NANOS, format_nanos
from router.contracts.usage import read_usage_cost

Event = tuple[bytes, Mapping[str, str]]  # data and headers of a usage event
Shown = Mapping[str, object]  # a budget as `router budget list --json` prints it


class BudgetRow(Struct, frozen=True):
    """One budget at the end. Money is nanos; `events_cost`: the sum over the events' identities."""

    budget: str
    amount: int
    settled: int
    events_cost: int
    settled_events: int
    events: int
    reserved: int
    bound: int  # a slice of each instance

    @property
    def overspent(self) -> int:
        return max(0, self.settled - self.amount)

    @property
    def is_clean(self) -> bool:
        is_exact = (self.settled, self.settled_events) == (self.events_cost, self.events)
        return is_exact and self.reserved == 0 and self.overspent <= self.bound

    def cells(self) -> tuple[str, ...]:
        money = (
            self.amount,
            self.settled,
            self.settled - self.events_cost,
            self.overspent,
            self.bound,
            self.reserved,
        )
        amount, settled, difference, overspent, bound, reserved = map(format_nanos, money)
        return (
            self.budget,
            amount,
            settled,
            str(self.settled_events),
            str(self.events),
            difference,
            overspent,
            bound,
            reserved,
        )


COLUMNS = (
    "budget",
    "amount",
    "settled",
    "events settled",
    "events stored",
    "difference",
    "overspent",
    "a slice each",
    "reserved",
)


class _Booked(Struct, frozen=True):
    """One event by its identity. `budget`: the one that it names, where it counts in no other."""

    provider_id: str
    policy_id: str | None
    nanos: int
    budget: str | None

    def is_of(self, one: Shown) -> bool:
        if self.budget is not None:
            return self.budget == one["budget"]
        return one.get("provider") in (None, self.provider_id) and one.get("policy") in (
            None,
            self.policy_id,
        )


def balance_budgets(
    shown: Sequence[Shown], stored: Sequence[Event], instances: int, slice_percent: Decimal
) -> list[BudgetRow]:
    """A row for each budget of one tenant, whose events all are in its present window."""
    booked: dict[str, _Booked] = {}
    for data, headers in stored:
        cost, reservation = read_usage_cost(data), read_reservation(headers.get(RESERVATION_HEADER))
        assert cost is not None
        assert cost.is_correlated, "every result of the run has its assignment"
        policy_id = reservation.policy_id if reservation is not None else None
        booked.setdefault(
            cost.event_id, _Booked(cost.provider_id, policy_id, cost.nanos, cost.budget)
        )
    return [_balance(one, list(booked.values()), instances, slice_percent) for one in shown]


def _balance(
    one: Shown, booked: Sequence[_Booked], instances: int, slice_percent: Decimal
) -> BudgetRow:
    mine = [event.nanos for event in booked if event.is_of(one)]
    amount, settled, reserved = (
        int(Decimal(str(one[name])) * NANOS) for name in ("amount", "settled", "reserved")
    )
    return BudgetRow(
        budget=str(one["budget"]),
        amount=amount,
        settled=settled,
        events_cost=sum(mine),
        settled_events=int(str(one["events"])),
        events=len(mine),
        reserved=reserved,
        bound=instances * int(amount * slice_percent / 100),
    )
