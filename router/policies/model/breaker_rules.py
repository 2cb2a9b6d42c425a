"""The rules of a provider's breaker (docs/reference/extensions.md#provider-breaker).

A breaker belongs to a tenant and a provider, not to a policy. So of several policies one gives the rules: the tenant's own
before a shared one; among these the one that opens after the fewest failures, then the one with the longest timeout, then the
first by name. Without a policy that has a breaker there is none. Where there is one, every policy of the tenant respects it:
a provider that is down is down for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from router.core.breakers import BreakerRules
from router.policies.model.document import BreakerConfig
from router.policies.model.policy import SHARED, Policy, list_arms

Pair = tuple[str, str]  # tenant (or `_shared`), provider


class ProviderRules:
    """The rules that follow from one table of policies, by (tenant, policy).

    A tenant's rules are computed at their first lookup, and copied from the table `before` where the tenant's policies are the
    same objects: a change of one tenant's policy costs the other tenants nothing.
    """

    def __init__(self, policies: Mapping[tuple[str, str], Policy], before: ProviderRules | None = None) -> None:
        self._policies: dict[str, list[Policy]] = {}
        for policy in list_arms(policies.values()):
            if policy.circuit_breaker is not None:
                self._policies.setdefault(policy.tenant_id, []).append(policy)
        self._rules: dict[str, Mapping[str, BreakerRules]] = {}
        if before is not None:
            self._rules |= {tenant: rules for tenant, rules in before._rules.items() if self._is_unchanged(before, tenant)}

    def find(self, tenant_id: str, provider_id: str) -> BreakerRules | None:
        return self._rules_of_tenant(tenant_id).get(provider_id) or self._rules_of_tenant(SHARED).get(provider_id)

    def _rules_of_tenant(self, tenant_id: str) -> Mapping[str, BreakerRules]:
        if tenant_id not in self._policies:
            return _NO_RULES  # a tenant without policies takes no memory: clients can invent names
        rules = self._rules.get(tenant_id)
        if rules is None:
            rules = self._rules[tenant_id] = _collect_rules(self._policies[tenant_id])
        return rules

    def _is_unchanged(self, before: ProviderRules, tenant_id: str) -> bool:
        mine, theirs = self._policies.get(tenant_id, []), before._policies.get(tenant_id, [])
        return len(mine) == len(theirs) and all(one is other for one, other in zip(mine, theirs, strict=True))


_NO_RULES: Mapping[str, BreakerRules] = {}


def _collect_rules(policies: Iterable[Policy]) -> Mapping[str, BreakerRules]:
    found: dict[str, BreakerRules] = {}
    for policy in sorted(policies, key=_least_careful_first):
        if policy.circuit_breaker is not None:
            found |= dict.fromkeys((provider for provider, _ in policy.plan.decisions), _rules_of(policy.circuit_breaker))
    return found


def _least_careful_first(policy: Policy) -> tuple[int, int, tuple[int, ...]]:
    breaker = policy.circuit_breaker or BreakerConfig()
    return -breaker.failure_threshold, breaker.timeout_ms, tuple(-ord(letter) for letter in policy.policy_id)


def _rules_of(breaker: BreakerConfig) -> BreakerRules:
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
