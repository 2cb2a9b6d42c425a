"""Rate limits: a burst, then the rate, for each tenant and policy alone."""

from router.policies.model import RateLimits
from tests.support.policy import a_policy


def _limited(rate: float = 10, burst: int = 3, **where: str):
    return a_policy(rate_limit={"requests_per_second": rate, "burst": burst}, **where)


def test_a_policy_without_a_limit_allows_everything() -> None:
    limits, policy = RateLimits(), a_policy()
    assert [limits.allow(policy, "acme", 0) for _ in range(1000)] == [None] * 1000


def test_a_burst_then_the_rate() -> None:
    limits, policy = RateLimits(), _limited()
    assert [limits.allow(policy, "acme", 5.0) for _ in range(5)] == [None, None, None, 100, 100]
    assert [limits.allow(policy, "acme", 5.1) for _ in range(2)] == [None, 100]


def test_who_waits_as_long_as_told_is_let_through() -> None:
    limits, policy, now = RateLimits(), _limited(rate=7, burst=1), 12345.678
    for _ in range(100):
        assert limits.allow(policy, "acme", now) is None
        wait_ms = limits.allow(policy, "acme", now)
        assert wait_ms is not None
        now += wait_ms / 1000


def test_over_a_long_time_the_rate_holds() -> None:
    limits, policy = RateLimits(), _limited(rate=10, burst=3)
    allowed = sum(limits.allow(policy, "acme", n / 100) is None for n in range(1000))
    assert 100 <= allowed <= 103


def test_rest_refills_no_more_than_the_burst() -> None:
    limits, policy = RateLimits(), _limited()
    limits.allow(policy, "acme", 0)
    assert [limits.allow(policy, "acme", 9999) for _ in range(4)] == [None, None, None, 100]


def test_tenants_of_a_shared_policy_have_a_bucket_each() -> None:
    limits, shared = RateLimits(), _limited(burst=1, tenant="_shared")
    assert [limits.allow(shared, tenant, 0) for tenant in ("a", "b", "a")] == [None, None, 100]


def test_tenant_and_policy_are_never_run_together() -> None:
    limits = RateLimits()
    assert limits.allow(_limited(burst=1, tenant="a.b", policy_id="c"), "a.b", 0) is None
    assert limits.allow(_limited(burst=1, tenant="a", policy_id="b.c"), "a", 0) is None


def test_the_bucket_longest_unused_makes_room() -> None:
    limits, policy = RateLimits(limit=2), _limited(burst=1)
    assert [limits.allow(policy, tenant, 0) for tenant in ("a", "b", "c", "a", "c")] == [
        None,
        None,
        None,
        None,
        100,
    ]


def test_a_limit_that_became_faster_does_not_wait_for_the_slow_one() -> None:
    limits, slow = RateLimits(), _limited(rate=1, burst=1000)
    for _ in range(1000):
        limits.allow(slow, "acme", 0)
    assert limits.allow(_limited(rate=100, burst=10), "acme", 0) == 10


def test_a_token_given_back_is_there_again() -> None:
    limits, policy = RateLimits(), _limited(burst=1)
    assert limits.allow(policy, "acme", 0) is None
    limits.give_back(policy, "acme", 0)
    assert [limits.allow(policy, "acme", 0) for _ in range(2)] == [None, 100]
