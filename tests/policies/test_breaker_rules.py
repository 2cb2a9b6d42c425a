"""Which policy speaks for a provider's breaker."""

from router.policies.model import Policy
from router.policies.model.breakers import ProviderRules
from tests.support.breakers import a_guarded_policy
from tests.support.policy import a_policy, a_provider, a_rule


def threshold(*policies: Policy, tenant: str = "acme", provider: str = "openai") -> int | None:
    rules = ProviderRules(
        {(policy.tenant_id, policy.policy_id): policy for policy in policies}
    ).find(tenant, provider)
    return rules.failure_threshold if rules is not None else None


def test_no_policy_with_a_breaker_no_breaker() -> None:
    assert threshold(a_policy(a_provider("openai"))) is None
    assert threshold(a_guarded_policy(enabled=False)) is None
    assert threshold(a_guarded_policy("anthropic")) is None


def test_the_target_of_a_fallback_has_one_too() -> None:
    policy = a_policy(
        a_provider("openai"), fallbacks=[a_rule("cohere", {})], circuit_breaker={"enabled": True}
    )
    assert threshold(policy, provider="cohere") == 5


def test_the_tenants_own_policies_go_before_the_shared_ones() -> None:
    own = a_guarded_policy(failure_threshold=9)
    shared = a_guarded_policy(tenant="_shared", failure_threshold=2)
    assert threshold(own, shared) == 9
    assert threshold(own, shared, tenant="other") == 2


def test_of_several_the_most_careful_speaks_for_all() -> None:
    policies = [
        a_guarded_policy(policy_id=f"p{number}", failure_threshold=number) for number in (4, 2, 7)
    ]
    assert threshold(*policies) == 2


def test_of_equals_the_one_that_waits_longest_speaks() -> None:
    policies = [
        a_guarded_policy(policy_id=f"p{number}", timeout_ms=number) for number in (2000, 5000, 3000)
    ]
    table = {(policy.tenant_id, policy.policy_id): policy for policy in policies}
    rules = ProviderRules(table).find("acme", "openai")
    assert rules is not None
    assert rules.timeout_s == 5


def test_all_that_the_policy_says_becomes_the_rules() -> None:
    policy = a_guarded_policy(
        error_rate_window_seconds=30,
        latency_threshold_ms=900,
        half_open_max_calls=7,
        minimum_calls=20,
    )
    rules = ProviderRules({("acme", "default"): policy}).find("acme", "openai")
    assert rules is not None
    assert (
        rules.error_rate_window_s,
        rules.latency_threshold_ms,
        rules.half_open_max_calls,
        rules.minimum_calls,
    ) == (30, 900, 7, 20)
