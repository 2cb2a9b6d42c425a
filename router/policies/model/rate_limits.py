"""Rate limits: one token bucket for each (tenant, policy), kept by this instance alone; and the
arithmetic of one that is shared.

A bucket is one number, the time at which it is full again (the "virtual scheduling" form of a leaky
bucket): a token moves that time on by 1/rate, and it may lie at most burst/rate ahead of now.
"""

from __future__ import annotations

import math
from typing import Protocol

from msgspec import Struct

from router.core.bounded_cache import BoundedCache
from router.policies.model.policy import Policy, RateLimit

# rounding of floats: a caller that waits exactly as long as the answer said is allowed
_SLACK_S = 1e-6
_SECOND_NS = 1_000_000_000


class RateLimiter(Protocol):
    """How often policies may be asked. `now`: seconds of a steady clock."""

    def allow(self, policy: Policy, tenant_id: str, now: float) -> float | None:
        """Take a token: None. Without one: the milliseconds until the next token. May raise
        LeaseShort.
        """

    def give_back(self, policy: Policy, tenant_id: str, now: float) -> None:
        """A request that took a token is tried again, and takes another one."""


class TokensTaken(Struct, frozen=True):
    """The shared bucket afterwards, how many tokens were taken, and nanoseconds until there is
    another one (0: there is).
    """

    full_at_ns: int
    granted: int
    wait_ns: int


def take_tokens(limit: RateLimit, full_at_ns: int, now_ns: int, wanted: int) -> TokensTaken:
    """As many as there are, at most `wanted`. A bucket that is further behind than its limit allows
    (it has changed) is empty.
    """
    token = math.ceil(_SECOND_NS / limit.requests_per_second)
    whole = limit.burst * token
    used = min(max(0, full_at_ns - now_ns), whole)
    granted = min(wanted, (whole - used) // token)
    used += granted * token
    return TokensTaken(now_ns + used, granted, max(0, used + token - whole))


class RateLimits:
    """At most `limit` buckets; the least recently used one is dropped first, and starts full when
    it is needed again.
    """

    def __init__(self, limit: int = 100_000) -> None:
        self._full_at: BoundedCache[str, float] = BoundedCache(limit)

    def allow(self, policy: Policy, tenant_id: str, now: float) -> float | None:
        """Take a token: None. Without one: the milliseconds until the next token. `now`: seconds of
        a steady clock.
        """
        limit = policy.rate_limit
        if limit is None:
            return None
        bucket = name_bucket(policy, tenant_id)
        token_s = 1 / limit.requests_per_second
        whole_s = limit.burst * token_s
        # further ahead: by an older, slower limit
        full_at = min(self._full_at.get(bucket, now) or now, now + whole_s) + token_s
        wait_s = full_at - whole_s - now
        if wait_s > _SLACK_S:
            return math.ceil((wait_s - _SLACK_S) * 1000)
        # full again, it need not be known any more
        self._full_at.put(bucket, full_at, full_at, now, owner=tenant_id)
        return None

    def give_back(self, policy: Policy, tenant_id: str, now: float) -> None:
        """The token of a request that is tried again."""
        bucket = name_bucket(policy, tenant_id)
        if (
            policy.rate_limit is not None
            and (full_at := self._full_at.get(bucket, now)) is not None
        ):
            full_at -= 1 / policy.rate_limit.requests_per_second
            self._full_at.put(bucket, full_at, full_at, now, owner=tenant_id)


def name_bucket(policy: Policy, tenant_id: str) -> str:
    """The bucket of a tenant and policy in this process."""
    return f"{tenant_id}\0{policy.policy_id}"  # no id holds a zero byte
