"""All measurements of this instance, by tenant: at most so many pairs of tenant and provider.

The pair longest without an outcome or an assignment goes first, those of a tenant above its share
before others. Results of known assignments feed it, and assignments; clients can invent neither.
`policies.shared_measurements` writes and reads figures among instances.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from math import inf

from msgspec.structs import replace

from router.contracts.failure_class import FailureClass
from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock, steady, wall
from router.policies.model.measurements.measured_provider import MeasuredProvider
from router.policies.model.measurements.measured_tenant import MeasuredTenant
from router.policies.model.measurements.values import (
    MAX_PROVIDERS,
    NO_FIGURES,
    ErrorCounts,
    FiguresRecord,
    LearnedFigures,
)


class Measurements:
    """`now` is a steady clock; `today`, seconds since the epoch, only orders the outcomes of
    several instances.
    """

    def __init__(self, limit: int = 20_000, now: Clock = steady, today: Clock = wall) -> None:
        self._now = now
        self._today = today
        self._tenants: dict[str, MeasuredTenant] = {}
        # tenants, in the order of their first change since their record was made
        self._changed: dict[str, None] = {}
        self._pairs: BoundedCache[tuple[str, str], bool] = BoundedCache(limit, self._forget)

    def figures_of(self, tenant_id: str) -> Mapping[str, LearnedFigures]:
        """The figures of the tenant's providers; a provider of which nothing is known is left out."""
        tenant = self._tenants.get(tenant_id)
        return NO_FIGURES if tenant is None else tenant.read(self._now())

    def errors_of(self, tenant_id: str) -> Mapping[str, ErrorCounts]:
        """The failures of the tenant's providers by class, as of the last figures."""
        tenant = self._tenants.get(tenant_id)
        return {} if tenant is None else tenant.errors

    def list_tenants(self) -> list[str]:
        """Tenants of whose providers anything is known, by name."""
        return sorted(self._tenants)

    def on_assigned(self, tenant_id: str, provider_id: str, assignment_id: str) -> None:
        """An assignment was stored by this instance."""
        now, provider = self._now(), self._find(tenant_id, provider_id)
        if provider is not None:
            tenant = self._tenants[tenant_id]
            tenant.assigned += 1
            provider.on_assigned(assignment_id, now, has_room=tenant.has_room(provider))
            tenant.changed[provider_id] = now
            self._changed[tenant_id] = None

    def on_probe(self, tenant_id: str, provider_id: str) -> None:
        """A decision probes a provider that fails: the next one is due a second later."""
        tenant = self._tenants.get(tenant_id)
        provider = tenant.providers.get(provider_id) if tenant is not None else None
        if tenant is not None and provider is not None:
            provider.probed_at, provider.tried_after = self._now(), tenant.assigned

    def on_result(  # noqa: PLR0917 - once a result
        self,
        tenant_id: str,
        provider_id: str,
        assignment_id: str,
        latency_ms: float,
        cost: float,
        outcome: FailureClass | None,
        *,
        listed_cost: float | None = None,
    ) -> None:
        """The first result of a known assignment. It ends the assignment, whatever its class; None:
        a success.

        `listed_cost`: where the moving cost begins; None: with the first success.
        """
        now, provider = self._now(), self._find(tenant_id, provider_id)
        if provider is None:
            return
        provider.on_finished(assignment_id, now)
        now_ms = int(self._today() * 1000)
        provider.on_result(
            latency_ms=latency_ms,
            cost=cost,
            outcome=outcome,
            now=now,
            now_ms=now_ms,
            listed_cost=listed_cost,
        )
        tenant = self._tenants[tenant_id]
        provider.tried_after = tenant.assigned
        tenant.changed[provider_id] = now
        self._changed[tenant_id] = None

    def on_opened(self, tenant_id: str, provider_id: str) -> None:
        """The provider's breaker opened by the last result: it fails, so that probes find out when
        it is well again.
        """
        tenant = self._tenants.get(tenant_id)
        provider = tenant.providers.get(provider_id) if tenant is not None else None
        if provider is not None:
            provider.moving.is_failing, provider.moving.streak = True, 0

    # -- shared with other instances ---------------------------------------------------------------

    def list_changed(self, every_s: Callable[[str], float], most: int) -> list[str]:
        """Tenants that have changed since their record was made, and whose record is at least
        `every_s` old; the longest waiting first.
        """
        now = self._now()
        due = (
            tenant_id
            for tenant_id in self._changed
            if now - self._tenants[tenant_id].shared_at >= every_s(tenant_id)
        )
        return list(islice(due, most))

    def mark_changed(self, tenant_id: str) -> None:
        """Its record was not stored."""
        if tenant_id in self._tenants:
            self._changed[tenant_id] = None

    def build_record(self, tenant_id: str, node_id: str, life: str) -> FiguresRecord | None:
        """The record of a tenant, which has not changed from now on; None: it was dropped
        meanwhile.
        """
        self._changed.pop(tenant_id, None)
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            return None
        tenant.shared_at = self._now()
        return tenant.build_record(tenant_id, node_id, life, tenant.shared_at)

    def apply(self, record: FiguresRecord, age_s: float) -> None:
        """Take the record of another instance, which is `age_s` seconds old."""
        figures = {
            name: theirs
            for name, theirs in record.providers.items()
            if self._find(record.tenant_id, name) is not None
        }
        tenant = self._tenants.get(record.tenant_id)
        if tenant is not None:
            kept = {name: theirs for name, theirs in figures.items() if name in tenant.providers}
            if tenant.apply(replace(record, providers=kept), self._now(), age_s):
                self._changed[record.tenant_id] = None  # the others still count what has ended

    def keep_others(self, lives: Mapping[str, Collection[str]]) -> None:
        """Drop the records of other instances that are not among these lives, by tenant."""
        for tenant_id, tenant in self._tenants.items():
            if tenant.others:
                tenant.keep_others(lives.get(tenant_id, ()))

    def __len__(self) -> int:
        return len(self._pairs)

    def _find(self, tenant_id: str, provider_id: str) -> MeasuredProvider | None:
        """None: the tenant has as many providers as it may have."""
        tenant = self._tenants.get(tenant_id)
        provider = tenant.providers.get(provider_id) if tenant is not None else None
        if provider is None:
            if tenant is None:
                tenant = self._tenants[tenant_id] = MeasuredTenant()
            elif len(tenant.providers) >= MAX_PROVIDERS:
                return None
            provider = tenant.providers[provider_id] = MeasuredProvider(self._now())
            self._pairs.put((tenant_id, provider_id), True, inf, 0.0, owner=tenant_id)
            # with a very low limit it may have been dropped at once
            return tenant.providers.get(provider_id)
        self._pairs.get((tenant_id, provider_id), 0.0)
        return provider

    def _forget(self, pair: tuple[str, str]) -> None:
        tenant_id, provider_id = pair
        tenant = self._tenants[tenant_id]
        tenant.forget(provider_id)
        if not tenant.providers:
            del self._tenants[tenant_id]
            self._changed.pop(tenant_id, None)
