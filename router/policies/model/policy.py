"""One policy: the content of its document, and the plan, which follows from it for every request.
And the table of all policies.

The table is replaced as a whole, so that a request sees the old set or the new one, never a
mixture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from router.contracts.canary import CanaryPlan
from router.contracts.decision import Refusal
from router.policies.model.document import (
    BreakerConfig,
    Fallback,
    Pipeline,
    Provider,
    RateLimit,
    RoutingStrategy,
    StickySessions,
)
from router.policies.model.plan import DecisionPlan

SHARED = "_shared"  # the tenant of policies that every tenant may use


class Policy(Struct, frozen=True, kw_only=True):
    """Read, checked and ready; `parse_policy` makes it. `tenant_id` is the key it is stored under,
    or `_shared`.
    """

    tenant_id: str
    policy_id: str
    version: int
    providers: tuple[Provider, ...]
    fallbacks: tuple[Fallback, ...]
    strategy: RoutingStrategy | None  # None: by weight
    sticky: StickySessions | None
    circuit_breaker: BreakerConfig | None
    rate_limit: RateLimit | None
    timeout_ms: int | None
    is_high: bool  # of what waits of its tenant, its requests go first
    pipeline: Pipeline
    metadata: Mapping[str, object]
    plan: DecisionPlan
    refusal: Refusal | None  # the answer to every request, when the pipeline is too deep
    arm: str | None = None  # control | candidate, while a canary runs
    canary: PolicyCanary | None = None  # of the version in force


class PolicyCanary(Struct, frozen=True):
    """What is tried beside a policy: requests whose point is below `bound` (of 2^64) are decided by
    `candidate`.
    """

    candidate: Policy
    bound: int
    plan: CanaryPlan


def list_arms(policies: Iterable[Policy]) -> Iterator[Policy]:
    """Each policy, and its candidate behind it."""
    for policy in policies:
        yield policy
        if policy.canary is not None:
            yield policy.canary.candidate


class PolicyFinder(Protocol):
    """The port by which the decide handler finds policies."""

    def find(self, tenant_id: str, policy_id: str) -> Policy | None:
        """(tenant, id), else (`_shared`, id), else None."""
        ...


Key = tuple[str, str]  # tenant (or `_shared`), policy


class PolicyTable:
    """A `PolicyFinder` in memory."""

    def __init__(self, policies: Mapping[Key, Policy] | None = None) -> None:
        self.replace(policies or {})

    def find(self, tenant_id: str, policy_id: str) -> Policy | None:
        """(tenant, id), else (`_shared`, id), else None."""
        table = self._table
        return table.get((tenant_id, policy_id)) or table.get((SHARED, policy_id))

    def has_tenant(self, tenant_id: str) -> bool:
        """Whether the tenant has at least one policy of its own."""
        return tenant_id in self._tenants

    def is_high(self, tenant_id: str, policy_id: str) -> bool:
        """Whether requests of this policy go first among those of their tenant."""
        policy = self.find(tenant_id, policy_id)
        return policy is not None and policy.is_high

    def replace(self, policies: Mapping[Key, Policy]) -> None:
        self._table = dict(policies)
        self._all = MappingProxyType(self._table)
        self._tenants = frozenset(tenant_id for tenant_id, _ in self._table)
        self.has_high = any(policy.is_high for policy in self._table.values())

    def get_all(self) -> Mapping[Key, Policy]:
        """The whole table: the same object until the next `replace`, so that a caller can tell by
        identity whether it changed.
        """
        return self._all
