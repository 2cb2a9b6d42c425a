"""The breakers of services that several tenants call: one for each (service, tenant), so that a
tenant closes a service to itself alone.

    a tenant's failures           ──> its own breaker, by the usual rules
    two tenants' breakers open, and no call of any tenant has succeeded since ──> the service is left alone by the other tenants, too,
                                      until the first of the two may try it again

So a tenant whose requests make a service fail, or hang, keeps no other tenant from it; a service
that is down is found by two of them. An opening by what the tenant itself may have caused, as a key
that is not valid, is not one of the two. At most `limit` breakers: the least recently used one is
dropped first. A tenant has as many as there are services.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec import Struct

from router.core.breakers.breaker import CircuitBreaker, OnTransition
from router.core.breakers.states import (
    CLOSED,
    HALF_OPEN,
    OPEN,
    BreakerRules,
    BreakerSnapshot,
    BreakerTransition,
    CallPermit,
)
from router.core.clock import Clock, steady

ENOUGH_TENANTS = 2  # with a breaker that is open: then it is the service that fails
SEVERITY = (CLOSED, HALF_OPEN, OPEN)


class Openings:
    """Of one service, since a call of it succeeded: the tenants whose breakers opened last, and
    until when. Never more than two.
    """

    __slots__ = ("until",)

    def __init__(self) -> None:
        self.until: dict[str, float] = {}  # nearly always empty: a call looks before it asks

    def add(self, tenant_id: str, until: float) -> None:
        self.until.pop(tenant_id, None)
        self.until[tenant_id] = until
        while len(self.until) > ENOUGH_TENANTS:
            del self.until[next(iter(self.until))]

    def remove(self, tenant_id: str) -> None:
        self.until.pop(tenant_id, None)

    def clear(self) -> None:
        self.until.clear()

    def is_failing(self, now: float) -> bool:
        """Whether the service, and not one tenant's requests, is at fault."""
        return len(self.until) == ENOUGH_TENANTS and min(self.until.values()) > now


class TenantBreaker(CircuitBreaker):
    """One tenant's breaker of a service. `openings`: of all its tenants."""

    def __init__(
        self,
        name: tuple[str, str],
        rules: BreakerRules,
        openings: Openings,
        *,
        now: Clock,
        on_change: OnTransition,
    ) -> None:
        super().__init__("/".join(name), rules, now=now, on_change=on_change)
        self.service, self.tenant_id = name
        self._openings = openings
        self.is_tenants = False  # the last failure may have been of the tenant's own making

    def acquire(self, permit_s: float) -> CallPermit | None:
        if self.state != CLOSED:
            return super().acquire(permit_s)
        if self._openings.until and self._openings.is_failing(self._now()):
            return None
        return self._shared_permit

    def record_success(self, permit: CallPermit, latency_ms: float) -> None:
        if self._openings.until:
            self._openings.clear()
        super().record_success(permit, latency_ms)

    def record_failure(self, permit: CallPermit, *, is_tenants: bool = False) -> None:
        self.is_tenants = is_tenants
        super().record_failure(permit)


class ServiceSnapshot(Struct, frozen=True):
    """One service: the breaker of the tenant that is worst off, and the states of those that are
    not closed.
    """

    worst: BreakerSnapshot
    not_closed: Mapping[str, str]  # by tenant


class BreakerRegistry:
    """`rules_of` gives a new breaker's rules, by service. A dropped breaker loses its opening.

    A breaker's name is `{service}/{tenant}`: neither can hold a slash.
    """

    def __init__(
        self,
        rules_of: Callable[[str], BreakerRules] = lambda _: BreakerRules(),
        *,
        limit: int = 10_000,
        now: Clock = steady,
        on_change: OnTransition,
    ) -> None:
        self._rules_of = rules_of
        self._limit = limit
        self._now = now
        self._on_change = on_change
        self._breakers: OrderedDict[tuple[str, str], TenantBreaker] = OrderedDict()
        # by service: the registry of extensions bounds them
        self._openings: dict[str, Openings] = {}
        self._not_closed: set[tuple[str, str]] = set()

    def get(self, service: str, tenant_id: str) -> TenantBreaker:
        name = service, tenant_id
        breaker = self._breakers.get(name)
        if breaker is None:
            return self._create(name)
        self._breakers.move_to_end(name)
        return breaker

    def snapshots(self) -> Mapping[str, ServiceSnapshot]:
        """By service, of those that were called."""
        by_service: dict[str, list[TenantBreaker]] = {}
        for breaker in self._breakers.values():
            by_service.setdefault(breaker.service, []).append(breaker)
        return {service: _summarize(breakers) for service, breakers in by_service.items()}

    def list_services(self) -> Collection[str]:
        """Those that were called."""
        return self._openings.keys()

    def list_not_closed(self) -> Iterator[tuple[str, str]]:
        """Service and state of every breaker that is open or half open."""
        return ((name[0], self._breakers[name].phase) for name in self._not_closed)

    def keep(self, services: Collection[str]) -> None:
        """Drop the breakers of every other service. One that comes back starts with closed
        breakers.
        """
        for name in [name for name in self._breakers if name[0] not in services]:
            self._forget(name)
        self._openings = {
            service: opening for service, opening in self._openings.items() if service in services
        }

    def _create(self, name: tuple[str, str]) -> TenantBreaker:
        openings = self._openings.setdefault(name[0], Openings())
        breaker = TenantBreaker(
            name, self._rules_of(name[0]), openings, now=self._now, on_change=self._on_transition
        )
        self._breakers[name] = breaker
        if len(self._breakers) > self._limit:
            self._forget(next(iter(self._breakers)))
        return breaker

    def _forget(self, name: tuple[str, str]) -> None:
        del self._breakers[name]
        self._not_closed.discard(name)

    def _on_transition(self, transition: BreakerTransition) -> None:
        service, _, tenant_id = transition.name.partition("/")
        name, openings = (service, tenant_id), self._openings.get(service)
        # else it was dropped while a call was under way
        if name in self._breakers and openings is not None:
            self._note(name, openings, transition)
        self._on_change(transition)

    def _note(
        self, name: tuple[str, str], openings: Openings, transition: BreakerTransition
    ) -> None:
        if transition.state == CLOSED:
            self._not_closed.discard(name)
            openings.remove(name[1])
            return
        self._not_closed.add(name)
        if transition.state == OPEN and not self._breakers[name].is_tenants:
            openings.add(name[1], self._now() + transition.left_s)

    def __len__(self) -> int:
        return len(self._breakers)


def _summarize(breakers: Collection[TenantBreaker]) -> ServiceSnapshot:
    by_tenant = {breaker.tenant_id: breaker.snapshot for breaker in breakers}
    worst = max(
        by_tenant.values(),
        key=lambda snapshot: (
            SEVERITY.index(snapshot.state),
            snapshot.failure_count,
            snapshot.error_rate,
        ),
    )
    return ServiceSnapshot(
        worst,
        {
            tenant_id: snapshot.state
            for tenant_id, snapshot in by_tenant.items()
            if snapshot.state != CLOSED
        },
    )
