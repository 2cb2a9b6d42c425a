"""Which rules a provider's breaker goes by: those of the policies in force that name the provider.

A breaker belongs to a tenant and a provider, not to a policy, so of several policies one speaks for all: the tenant's own
before the shared ones; among these the most careful, which is the one that bears the fewest failures, then the one that
waits longest, then the first by its name. No policy with a breaker, no breaker; where there is one, it is heard by
every policy of the tenant, for a provider that is down is down for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from router.breakers import BreakerRules
from router.policy.model import Breaker
from router.policy.policy import SHARED, Policy

Pair = tuple[str, str]  # tenant (or `_shared`), provider


class ProviderRules:
    """The rules that follow from one table of policies, by (tenant, policy)."""

    def __init__(self, policies: Mapping[tuple[str, str], Policy]) -> None:
        self._rules: dict[Pair, BreakerRules] = {}
        for policy in sorted(policies.values(), key=_least_careful_first):
            if policy.circuit_breaker is not None:
                rules = _rules_of(policy.circuit_breaker)
                self._rules |= {(policy.tenant_id, provider): rules for provider, _ in policy.plan.answers}

    def of(self, tenant_id: str, provider_id: str) -> BreakerRules | None:
        return self._rules.get((tenant_id, provider_id)) or self._rules.get((SHARED, provider_id))


def _least_careful_first(policy: Policy) -> tuple[int, int, tuple[int, ...]]:
    breaker = policy.circuit_breaker or Breaker()
    return -breaker.failure_threshold, breaker.timeout_ms, tuple(-ord(letter) for letter in policy.policy_id)


def _rules_of(breaker: Breaker) -> BreakerRules:
    return BreakerRules(
        failure_threshold=breaker.failure_threshold,
        success_threshold=breaker.success_threshold,
        timeout_s=breaker.timeout_ms / 1000,
        half_open_max_calls=breaker.half_open_max_calls,
        error_rate_threshold=breaker.error_rate_threshold,
        error_rate_window_s=float(breaker.error_rate_window_seconds),
        minimum_calls=breaker.minimum_calls,
        latency_threshold_ms=breaker.latency_threshold_ms,
    )
