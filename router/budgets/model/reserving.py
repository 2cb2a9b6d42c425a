"""What a decision reserves in budgets: slices of each, the budgets of one tenant, and the table of
all tenants. All budgets that a decision belongs to must have room, and then all are charged; else
it is refused.

What a decision reserves is what was learned of its provider's cost, but results are a worker's
word, and a few of them that cost nothing must not open the budget:

    fewer than ENOUGH_SAMPLES results     not below what the policy lists
    then                                  not below `least_share` of that
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from router.budgets.model.budget import Budget
from router.budgets.model.reservation import BudgetReservation
from router.contracts.decision import (
    BUDGET_EXCEEDED,
    DOWNGRADED_BY,
    Decision,
    Refusal,
    RouteRequest,
)
from router.contracts.money import NANOS, format_nanos
from router.core.clock import Clock, format_second
from router.core.errors import BrokerUnavailable
from router.core.lease_short import LeasedSlice, LeaseShort

# -- A slice: what this instance may reserve of one budget without asking the bucket.
#
# reserve ──> remaining - cost ──> below half of a slice: the next one is asked for, in the background
#    └── too little ──> SliceShort: the request waits for an answer of the bucket, or is refused if that has just had none


WAIT_S = 2.0  # of a request, for a larger slice
REFUSED_S = 0.5  # for so long the bucket's no holds


class SliceShort(LeaseShort):
    """Raised by a decision that does not fit into slices of this instance: the bucket may have
    more.
    """

    def __init__(self, slices: Sequence[BudgetSlice]) -> None:
        super().__init__("a slice is too small")
        self._slices = slices

    async def wait(self) -> None:
        """Until the bucket has answered for all of them. Raises BrokerUnavailable if it does not,
        in time.
        """
        try:
            async with asyncio.timeout(WAIT_S):
                for slice_ in self._slices:
                    await slice_.join()
        except TimeoutError:
            raise BrokerUnavailable("a budget cannot be read: its bucket gives no answer") from None


class BudgetSlice(LeasedSlice):
    """Of one budget. `ask` wakes what asks the bucket. Money is nanos, times are seconds of the
    server's clock.
    """

    def __init__(self, budget: Budget, size: int, ask: Callable[[BudgetSlice], None]) -> None:
        super().__init__()
        self.budget = budget
        self.size = size
        self.remaining = 0
        self.starts_s = self.ends_s = 0  # of the window that `remaining` is for
        self.number = 0  # of the lease that is charged
        self.lease_ends = 0.0  # then the next lease begins
        self.seen_s = 0.0  # when a request looked whether it is refused
        self.left: int | None = None  # for all instances, when the bucket was read last
        self.need = 0  # the largest reservation that waits
        self._ask = ask
        self._refused_from = 0  # so large a reservation, and a larger one, had no room
        self._refused_until = 0.0

    def has_room(self, nanos: int, now: float) -> bool:
        return nanos <= self.remaining and now < self.ends_s

    def is_refused(self, nanos: int, now: float) -> bool:
        """Whether the bucket has just said that there is no room for so much."""
        self.seen_s = now
        return now < self._refused_until and nanos >= self._refused_from and now < self.ends_s

    def find_wait_ms(self) -> int:
        """Until the window ends, by the last time that was looked at."""
        return max(0, round((self.ends_s - self.seen_s) * 1000))

    def charge(self, nanos: int) -> None:
        self.remaining -= nanos
        if self.remaining < self.size >> 1 and not self.is_asked:
            self.request()

    def request(self, need: int = 0) -> None:
        """Have the bucket asked; `need`: the reservation that waits for it."""
        self.need = max(self.need, need)
        self.is_asked = True
        self._ask(self)

    def on_granted(self, granted: int) -> None:
        self.remaining += granted
        self.answer()

    def on_refused(self, nanos: int, now: float) -> None:
        """The bucket has no room for so much."""
        self._refused_from, self._refused_until = nanos, now + REFUSED_S
        self.answer()

    def answer(self) -> None:
        """Those that wait look again."""
        self.need = 0
        super().answer()


# -- The budgets of one tenant at its decisions: all that a decision belongs to must have room,
# and then all are charged.


ENOUGH_SAMPLES = 20  # successes, until a learned cost below the listed one is believed
LEAST_SHARE = 0.1


class Charge(Struct, frozen=True, gc=False):
    """What a decision has reserved, until its assignment holds it: of each slice, by the lease of
    that place in the reservation.
    """

    slices: Sequence[BudgetSlice]
    reservation: BudgetReservation

    def release(self) -> None:
        """Nothing is assigned: the slices have it back, where their lease is still the same."""
        for slice_, number in zip(self.slices, self.reservation.leases.values(), strict=True):
            if slice_.number == number:
                slice_.remaining += self.reservation.nanos


class TenantBudgets:
    """`on_charge` gets the charge of each decision that is to be assigned. `clock`: the server's."""

    def __init__(
        self,
        life: str,
        slices: Sequence[BudgetSlice],
        clock: Clock,
        on_charge: Callable[[RouteRequest, Charge], None],
        least_share: float = LEAST_SHARE,
    ) -> None:
        self.slices: Sequence[BudgetSlice] = tuple(slices)
        self._is_of_all = all(
            slice_.budget.policy_id is None and slice_.budget.provider_id is None
            for slice_ in slices
        )
        self._life = life
        self._clock = clock
        self._on_charge = on_charge
        self._least_share = least_share

    def reserve(
        self,
        request: RouteRequest,
        policy_id: str,
        decision: Decision,
        passed_over: Sequence[BudgetSlice] = (),
    ) -> Sequence[BudgetSlice]:
        """Reserve the expected cost; return the slices of the budgets that have no room, and then
        nothing is reserved. For a requester that invokes the provider itself nothing is reserved
        either: its invocation does that.

        Raises SliceShort where the bucket must be asked first. `passed_over`: they do not count.
        """
        cost, listed = decision.expected_cost, decision.listed_cost
        if listed is not None and cost < listed:
            cost = max(
                cost, listed if decision.samples < ENOUGH_SAMPLES else listed * self._least_share
            )
        nanos = int(cost * NANOS) + 1  # never nothing: a budget that is spent lets nothing through
        now, provider_id = self._clock(), decision.provider_id
        covered = self.slices
        if not self._is_of_all:
            covered = [slice_ for slice_ in covered if slice_.budget.is_for(policy_id, provider_id)]
        if passed_over:
            covered = [slice_ for slice_ in covered if slice_ not in passed_over]
        for slice_ in covered:
            if (
                nanos > slice_.remaining or now >= slice_.ends_s
            ):  # `has_room`, in place: once a decision
                return _refuse(covered, nanos, now)
        if request.return_message:
            return ()
        for slice_ in covered:
            slice_.charge(nanos)
        if request.push_assignment and covered:
            leases = {slice_.budget.budget_id: slice_.number for slice_ in covered}
            self._on_charge(
                request, Charge(covered, BudgetReservation(self._life, nanos, policy_id, leases))
            )
        return ()

    def reserve_amount(
        self, nanos: int, policy_id: str | None, provider_id: str
    ) -> Charge | Sequence[BudgetSlice]:
        """Reserve so much for an invocation; the slices that have no room, and then nothing is
        reserved. Raises SliceShort.
        """
        now = self._clock()
        covered = [slice_ for slice_ in self.slices if slice_.budget.is_for(policy_id, provider_id)]
        if not all(slice_.has_room(nanos, now) for slice_ in covered):
            return _refuse(covered, nanos, now)
        for slice_ in covered:
            slice_.charge(nanos)
        leases = {slice_.budget.budget_id: slice_.number for slice_ in covered}
        return Charge(covered, BudgetReservation(self._life, nanos, policy_id or "", leases))


def _refuse(covered: Sequence[BudgetSlice], nanos: int, now: float) -> Sequence[BudgetSlice]:
    short = [slice_ for slice_ in covered if not slice_.has_room(nanos, now)]
    refused = [slice_ for slice_ in short if slice_.is_refused(nanos, now)]
    if refused:
        return refused
    for slice_ in short:
        slice_.request(nanos)
    raise SliceShort(short)


# -- The budgets of all tenants in this instance, and its slices of them.
#
# `tenants` is one dictionary for as long as the process lives: a decision of a tenant without a
# budget pays one look into it.


MAX_CHARGES = 20_000  # of requests whose assignment is being stored
MAX_BUDGETS = 16  # of a tenant

Key = tuple[str, str, int]  # tenant, budget, when it was made


class BudgetTable:
    """`life` names this instance's leases. `share`: a slice's part of the amount. `clock`: the
    server's, seconds since the epoch.

    `least_share`: the part of the listed cost that a decision reserves at least, whatever was
    learned.
    """

    def __init__(
        self, life: str, share: float, clock: Clock, least_share: float = LEAST_SHARE
    ) -> None:
        self.life = life
        self.tenants: dict[str, TenantBudgets] = {}
        self._share = share
        self._clock = clock
        self._least_share = least_share
        self._slices: dict[Key, BudgetSlice] = {}
        self._charges: dict[tuple[str, str], Charge] = {}  # by tenant and request
        self.on_asked: Callable[[BudgetSlice], None] = lambda _: None

    @property
    def slices(self) -> Mapping[Key, BudgetSlice]:
        return self._slices

    def replace(self, budgets: Iterable[Budget]) -> None:
        """All budgets. The slices of those that stay are kept; beyond 16 of a tenant, the first by
        name count.
        """
        before, self._slices = self._slices, {}
        by_tenant: dict[str, list[BudgetSlice]] = {}
        for budget in sorted(budgets, key=lambda listed: (listed.tenant_id, listed.budget_id)):
            mine = by_tenant.setdefault(budget.tenant_id, [])
            if len(mine) < MAX_BUDGETS:
                mine.append(self._keep(before, budget))
        self.tenants.clear()
        for tenant_id, slices in by_tenant.items():
            self.tenants[tenant_id] = TenantBudgets(
                self.life, slices, self._clock, self._on_charge, self._least_share
            )
        # What waits for a budget that is gone is decided without it.
        for key in before.keys() - self._slices.keys():
            before[key].answer()

    def take_charge(self, request: RouteRequest) -> Charge | None:
        """What the decision of this request has reserved, for its assignment; once."""
        return (
            self._charges.pop((request.tenant_id, request.request_key), None)
            if self._charges
            else None
        )

    def _keep(self, before: Mapping[Key, BudgetSlice], budget: Budget) -> BudgetSlice:
        key = budget.tenant_id, budget.budget_id, budget.created_ms
        size = max(1, int(budget.amount * self._share))
        slice_ = before.get(key) or BudgetSlice(budget, size, self._ask)
        slice_.budget, slice_.size = budget, size
        self._slices[key] = slice_
        return slice_

    def _ask(self, slice_: BudgetSlice) -> None:
        self.on_asked(slice_)

    def _on_charge(self, request: RouteRequest, charge: Charge) -> None:
        if len(self._charges) >= MAX_CHARGES:  # the oldest ends with its lease
            del self._charges[next(iter(self._charges))]
        self._charges[request.tenant_id, request.request_key] = charge


# -- What a request gets whose budgets have no room: the refusal, or the policy that they name
# (docs/reference/budgets.md#decision).


MAX_MARKED = 1024


def find_downgrade(refused: Sequence[BudgetSlice]) -> str | None:
    """The policy that all of them name; None: one of them denies, or they name several."""
    named = {slice_.budget.downgrade_to for slice_ in refused}
    return named.pop() if len(named) == 1 else None


def refuse_for_budget(refused: Sequence[BudgetSlice]) -> Refusal:
    """The refusal by the first of them that denies, else by the first."""
    slice_ = next((slice_ for slice_ in refused if slice_.budget.downgrade_to is None), refused[0])
    budget = slice_.budget
    details = {
        "budget": budget.budget_id,
        "amount": format_nanos(budget.amount),
        "left": format_nanos(slice_.left or 0),
        "window": budget.window,
        "renews_at": format_second(slice_.ends_s),
        "retry_after_ms": slice_.find_wait_ms(),
    }
    return Refusal(BUDGET_EXCEEDED, "A budget of this tenant has no room for this request", details)


class Downgrades:
    """Decisions by another policy than the request's say which budget it was. A policy's decisions
    are few, and so are these.
    """

    def __init__(self) -> None:
        # with the decision itself: its id is not reused
        self._marked: dict[tuple[int, str], tuple[Decision, Decision]] = {}

    def mark(self, decision: Decision, budget_id: str) -> Decision:
        key = id(decision), budget_id
        marked = self._marked.get(key)
        if marked is None:
            if len(self._marked) >= MAX_MARKED:
                self._marked.clear()
            marked = (
                decision,
                replace(decision, metadata={**decision.metadata, DOWNGRADED_BY: budget_id}),
            )
            self._marked[key] = marked
        return marked[1]
