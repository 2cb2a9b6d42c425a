"""What a run of budgets must balance: settled is the sum of the usage events, little is overspent, and nothing stays reserved."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from msgspec import Struct

from router.contracts.money import NANOS, format_nanos
from router.contracts.reservation import RESERVATION_HEADER, read_reservation
from router.contracts.usage_cost import read_usage_cost

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
        money = (self.amount, self.settled, self.settled - self.events_cost, self.overspent, self.bound, self.reserved)
        amount, settled, difference, overspent, bound, reserved = map(format_nanos, money)
        return (self.budget, amount, settled, str(self.settled_events), str(self.events), difference, overspent, bound, reserved)


COLUMNS = ("budget", "amount", "settled", "events settled", "events stored", "difference", "overspent", "a slice each", "reserved")


def balance_budgets(shown: Sequence[Shown], stored: Sequence[Event], instances: int, slice_percent: Decimal) -> list[BudgetRow]:
    """A row for each budget of one tenant, whose events all are in its present window."""
    costs: dict[str, tuple[str, str | None, int]] = {}
    for data, headers in stored:
        cost, reservation = read_usage_cost(data), read_reservation(headers.get(RESERVATION_HEADER))
        assert cost is not None
        assert cost.is_correlated, "every result of the run has its assignment"
        costs.setdefault(cost.event_id, (cost.provider_id, reservation.policy_id if reservation is not None else None, cost.nanos))
    return [_balance(one, list(costs.values()), instances, slice_percent) for one in shown]


def _balance(one: Shown, costs: Sequence[tuple[str, str | None, int]], instances: int, slice_percent: Decimal) -> BudgetRow:
    provider, policy = one.get("provider"), one.get("policy")
    mine = [nanos for of, by, nanos in costs if provider in (None, of) and policy in (None, by)]
    amount, settled, reserved = (int(Decimal(str(one[name])) * NANOS) for name in ("amount", "settled", "reserved"))
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
