"""Rate limits: one token bucket for each (tenant, policy), kept by this instance alone.

A bucket is one number, the time at which it is full again (the "virtual scheduling" form of a leaky bucket):
a token moves that time on by 1/rate, and it may lie at most burst/rate ahead of now.
"""

from __future__ import annotations

import math

from router.core.bounded_cache import BoundedCache
from router.routing.policy.policy import Policy

_SLACK_S = 1e-6  # rounding of floats: a caller that waits exactly as long as the answer said is allowed


class RateLimits:
    """At most `limit` buckets; the least recently used one is dropped first, and starts full when it is needed again."""

    def __init__(self, limit: int = 100_000) -> None:
        self._full_at: BoundedCache[str, float] = BoundedCache(limit)

    def allow(self, policy: Policy, tenant_id: str, now: float) -> float | None:
        """Take a token: None. Without one: the milliseconds until the next token. `now`: seconds of a steady clock."""
        limit = policy.rate_limit
        if limit is None:
            return None
        bucket = f"{tenant_id}\0{policy.policy_id}"  # no id holds a zero byte
        token_s = 1 / limit.requests_per_second
        full_at = (self._full_at.get(bucket, now) or now) + token_s
        wait_s = full_at - limit.burst * token_s - now
        if wait_s > _SLACK_S:
            return math.ceil((wait_s - _SLACK_S) * 1000)
        self._full_at.put(bucket, full_at, full_at, now, owner=tenant_id)  # full again, it need not be known any more
        return None
