"""What invocations reserve in their tenant's budgets, as decisions do
(docs/reference/budgets.md#invocations).

before the call     the expected cost: reserved, or `budget_exceeded`
while it streams    it has cost more than that: as much again; where there is no room the stream
                    ends
at the end          the usage event has the reservation as a header, and ends it
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from router.budgets.model import BudgetSlice, BudgetTable, Charge
from router.budgets.model.reservation import read_reservation, reservation_text
from router.budgets.model.reserving import refuse_for_budget
from router.contracts.decision import BUDGET_EXCEEDED, OVERLOADED
from router.contracts.provider_request import ProviderRequest
from router.core import ids
from router.core.clock import Clock, steady
from router.core.errors import BrokerUnavailable
from router.core.lease_short import LeaseShort
from router.extensions.model.failure import InvocationRefused

SHORT_S = 2.0  # a stream goes on for so long while the bucket of budgets gives no answer


class InvocationBudgets:
    """Of this instance."""

    def __init__(self, table: BudgetTable) -> None:
        self._table = table

    async def reserve(
        self,
        request: ProviderRequest,
        nanos: int,
        assigned: str | None = None,
        *,
        is_bill: bool = False,
    ) -> InvocationReservation:
        """`assigned`: what the decision of its assignment has reserved; `is_bill`: for this
        attempt. Raises InvocationRefused.
        """
        present = read_reservation(assigned)
        policy_id = find_policy(request) if present is None else present.policy_id
        if present is not None and is_bill:
            return InvocationReservation(self, request, policy_id, present.nanos, None, assigned)
        return InvocationReservation(
            self, request, policy_id, nanos, await self._reserve(request, policy_id, nanos)
        )

    async def _reserve(
        self, request: ProviderRequest, policy_id: str | None, nanos: int
    ) -> Charge | None:
        while True:
            try:
                return self.try_reserve(request, policy_id, nanos, was_sent=False)
            except LeaseShort as short:
                try:
                    await short.wait()
                except BrokerUnavailable as exc:
                    raise _make_unread() from exc

    def try_reserve(
        self, request: ProviderRequest, policy_id: str | None, nanos: int, *, was_sent: bool
    ) -> Charge | None:
        """Without waiting; None: the tenant has no budget for it. Raises InvocationRefused;
        SliceShort: the bucket must be asked first.
        """
        budgets = self._table.tenants.get(request.tenant_id)
        if budgets is None:
            return None
        charge = budgets.reserve_amount(nanos, policy_id, request.provider_id)
        if isinstance(charge, Charge):
            return charge if charge.slices else None
        raise _make_exceeded(charge, was_sent=was_sent)


class InvocationReservation:
    """Of one attempt. It grows while a stream costs more than was expected."""

    def __init__(  # noqa: PLR0917 - `InvocationBudgets` makes it
        self,
        budgets: InvocationBudgets,
        request: ProviderRequest,
        policy_id: str | None,
        nanos: int,
        charge: Charge | None,
        assigned: str | None = None,
        now: Clock = steady,
    ) -> None:
        self._budgets = budgets
        self._assigned = assigned
        self._request = request
        self._policy_id = policy_id
        self._nanos = nanos
        self._charges = [charge] if charge is not None else []
        self._now = now
        self._short_since: float | None = None

    @property
    def header(self) -> str | None:
        """Of the usage event. What was reserved beside an assignment's, or by later leases than the
        first, ends with its lease.
        """
        if self._assigned is not None or not self._charges:
            return self._assigned
        first = self._charges[0].reservation
        nanos = sum(
            charge.reservation.nanos
            for charge in self._charges
            if charge.reservation.leases == first.leases
        )
        return reservation_text(replace(first, nanos=nanos))

    def grow(self, spent: int) -> None:
        """Reserve more where `spent` nanos are above what is reserved. Raises InvocationRefused
        where there is no room.
        """
        if spent <= self._nanos:
            return
        more = max(spent - self._nanos, self._nanos)
        try:
            charge = self._budgets.try_reserve(self._request, self._policy_id, more, was_sent=True)
        except LeaseShort:  # the bucket is asked; the next piece looks again
            self._wait_for_bucket()
            return
        self._short_since = None
        self._nanos += more
        if charge is not None:
            self._charges.append(charge)

    def release(self) -> None:
        """It cost nothing."""
        for charge in self._charges:
            charge.release()

    def _wait_for_bucket(self) -> None:
        self._short_since = self._now() if self._short_since is None else self._short_since
        if self._now() - self._short_since > SHORT_S:
            raise _make_unread(was_sent=True)


def find_policy(request: ProviderRequest) -> str | None:
    """The policy whose budgets it belongs to, where it names one."""
    policy_id = request.metadata.get("policy_id")
    return policy_id if isinstance(policy_id, str) and ids.is_scoped(policy_id) else None


def _make_exceeded(refused: Sequence[BudgetSlice], *, was_sent: bool) -> InvocationRefused:
    details = refuse_for_budget(refused).details or {}
    told = {name: str(value) for name, value in details.items()}
    return InvocationRefused(
        BUDGET_EXCEEDED,
        "A budget of this tenant has no room for this invocation",
        told,
        was_sent=was_sent,
    )


def _make_unread(*, was_sent: bool = False) -> InvocationRefused:
    return InvocationRefused(
        OVERLOADED, "A budget of this tenant cannot be read now; try again", {}, was_sent=was_sent
    )
