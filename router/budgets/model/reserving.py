"""The budgets of one tenant at its decisions: all that a decision belongs to must have room, and
then all are charged.

What a decision reserves is what was learned of its provider's cost, but results are a worker's
word, and a few of them that cost nothing must not open the budget:

    fewer than ENOUGH_SAMPLES results     not below what the policy lists
    then                                  not below `least_share` of that
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from router.budgets.model.reservation import BudgetReservation
from router.budgets.model.slices import BudgetSlice, SliceShort
from router.contracts.decision import Decision
from router.contracts.money import NANOS
from router.contracts.request import RouteRequest
from router.core.clock import Clock

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
        for one, number in zip(self.slices, self.reservation.leases.values(), strict=True):
            if one.number == number:
                one.remaining += self.reservation.nanos


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
            one.budget.policy_id is None and one.budget.provider_id is None for one in slices
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
        nothing is reserved.

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
            covered = [one for one in covered if one.budget.is_for(policy_id, provider_id)]
        if passed_over:
            covered = [one for one in covered if one not in passed_over]
        for one in covered:
            if nanos > one.remaining or now >= one.ends_s:  # `has_room`, in place: once a decision
                return _refuse(covered, nanos, now)
        for one in covered:
            one.charge(nanos)
        if request.push_assignment and covered:
            leases = {one.budget.budget_id: one.number for one in covered}
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
        covered = [one for one in self.slices if one.budget.is_for(policy_id, provider_id)]
        if not all(one.has_room(nanos, now) for one in covered):
            return _refuse(covered, nanos, now)
        for one in covered:
            one.charge(nanos)
        leases = {one.budget.budget_id: one.number for one in covered}
        return Charge(covered, BudgetReservation(self._life, nanos, policy_id or "", leases))


def _refuse(covered: Sequence[BudgetSlice], nanos: int, now: float) -> Sequence[BudgetSlice]:
    short = [one for one in covered if not one.has_room(nanos, now)]
    refused = [one for one in short if one.is_refused(nanos, now)]
    if refused:
        return refused
    for one in short:
        one.request(nanos)
    raise SliceShort(short)
