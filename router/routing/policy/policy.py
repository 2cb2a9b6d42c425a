"""One policy: the content of its document, and the plan, which follows from it for every request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from router.contracts.decision import Refusal
from router.routing.policy.model import BreakerConfig, Fallback, Pipeline, Provider, RateLimit, StickySessions
from router.routing.policy.plan import DecisionPlan

SHARED = "_shared"  # the tenant of policies that every tenant may use


class Policy(Struct, frozen=True, kw_only=True):
    """Read, checked and ready; `parse_policy` makes it. `tenant_id` is the key it is stored under, or `_shared`."""

    tenant_id: str
    policy_id: str
    version: int
    providers: tuple[Provider, ...]
    fallbacks: tuple[Fallback, ...]
    sticky: StickySessions | None
    circuit_breaker: BreakerConfig | None
    rate_limit: RateLimit | None
    timeout_ms: int | None
    pipeline: Pipeline
    metadata: Mapping[str, object]
    plan: DecisionPlan
    refusal: Refusal | None  # the answer to every request, when the pipeline is too deep


class PolicyFinder(Protocol):
    """The port by which the decide handler finds policies."""

    def find(self, tenant_id: str, policy_id: str) -> Policy | None:
        """(tenant, id), else (`_shared`, id), else None."""
        ...
