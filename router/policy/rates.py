"""Rate limits: one token bucket for each (tenant, policy), kept by this instance alone.

A bucket is one number, the time at which it is full again (the "virtual scheduling" form of a leaky bucket):
a token moves that time on by 1/rate, and it may lie at most burst/rate ahead of now.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from router.policy.policy import Policy

_SLACK_S = 1e-6  # what floats lose: a caller that waits exactly as long as it was told is let through


class RateLimits:
    """At most `limit` buckets; the one longest unused goes first, and starts again full."""

    def __init__(self, limit: int = 100_000) -> None:
        self._limit = limit
        self._full_at: OrderedDict[tuple[str, str], float] = OrderedDict()

    def allow(self, policy: Policy, tenant_id: str, now: float) -> float | None:
        """None: go on, a token is spent. Else the milliseconds after which to ask again. `now`: seconds of a steady clock."""
        limit = policy.rate_limit
        if limit is None:
            return None
        bucket = (tenant_id, policy.policy_id)
        token_s = 1 / limit.requests_per_second
        full_at = max(self._full_at.get(bucket, now), now) + token_s
        wait_s = full_at - limit.burst * token_s - now
        if wait_s > _SLACK_S:
            return math.ceil((wait_s - _SLACK_S) * 1000)
        self._keep(bucket, full_at)
        return None

    def _keep(self, bucket: tuple[str, str], full_at: float) -> None:
        self._full_at[bucket] = full_at
        self._full_at.move_to_end(bucket)
        if len(self._full_at) > self._limit:
            self._full_at.popitem(last=False)
