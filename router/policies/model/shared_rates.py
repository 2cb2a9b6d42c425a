"""Rate limits over all instances: each takes tokens of the shared bucket in advance, a slice, and
decides from it.

allow ──> a token of the slice; below half of it: the next ones are asked for, in the background
   ├── no token, and the bucket has just had none ──> refused until the next one
   ├── no token ──> RateShort: the request waits for the bucket's answer
   └── the bucket cannot be reached ──> this instance counts alone for a while

A slice is one token at first, and doubles while it is used up quickly, up to a tenth of the smaller
of rate and burst. Its tokens are dropped after a second: no instance saves them up
(docs/reference/policies.md#shared-rate-limit).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock, steady
from router.core.lease_short import LeasedSlice, LeaseShort
from router.policies.model.policy import Policy, RateLimit
from router.policies.model.rate_limits import RateLimits, name_bucket

WAIT_S = 1.0  # of a request, for the bucket's answer
ALONE_S = 5.0  # for so long a bucket that gave none is not asked
HELD_S = 1.0  # a token that was taken in advance is used by then
# before a bucket that has just had no token is asked again, where tokens come faster
LONGEST_PAUSE_S = 0.02
KEPT_S = 3600.0
LIMIT = 100_000  # slices
PART = 10  # a slice is at most this part of the smaller of rate and burst


class RateShort(LeaseShort):
    """This instance has no token: the shared bucket may have some."""

    def __init__(self, one: RateSlice, on_silence: Callable[[str], None]) -> None:
        super().__init__("no token")
        self._slice = one
        self._on_silence = on_silence

    async def wait(self) -> None:
        """Until the bucket has answered; without an answer in time this instance counts alone, and
        the request goes on.
        """
        try:
            async with asyncio.timeout(WAIT_S):
                await self._slice.join()
        except TimeoutError:
            self._on_silence(f"no answer of the bucket within {WAIT_S:g} s")


class RateSlice(LeasedSlice):
    """The tokens that this instance holds of one limit. Times are seconds of a steady clock."""

    __slots__ = (
        "_given_at",
        "full_at_ns",
        "held_until",
        "limit",
        "policy_id",
        "refused_until",
        "revision",
        "size",
        "tenant_id",
        "tokens",
    )

    def __init__(self, tenant_id: str, policy_id: str, limit: RateLimit) -> None:
        super().__init__()
        self.tenant_id = tenant_id
        self.policy_id = policy_id
        self.limit = limit
        self.tokens = 0
        self.size = 1
        self.held_until = self.refused_until = self._given_at = -math.inf
        # of the document, when this instance wrote it last; revision 0: it has not
        self.revision = self.full_at_ns = 0

    def find_wanted(self, now: float) -> int:
        """How many tokens to ask for: those that fill the slice, or one for each request that
        waits.
        """
        held = self.tokens if now < self.held_until else 0
        return max(1, self.size - held, len(self._waiters))

    def adapt_size(self, now: float) -> None:
        """Larger where the last tokens were used up soon, smaller where some were dropped."""
        if self._given_at < now - HELD_S:
            self.size = max(1, self.size >> 1)
        elif self._given_at > now - HELD_S / 4:
            self.size = max(
                1,
                min(
                    self.size << 1,
                    int(min(self.limit.requests_per_second, self.limit.burst) / PART),
                ),
            )

    def on_granted(self, granted: int, now: float, wait_s: float) -> None:
        """The bucket has given so many. `wait_s`: until it has another one; 0: it has."""
        if granted:
            self.tokens = granted + (self.tokens if now < self.held_until else 0)
            self.held_until, self._given_at = now + HELD_S, now
        if wait_s > 0:
            pause_s = min(LONGEST_PAUSE_S, self.limit.burst / self.limit.requests_per_second / 4)
            self.refused_until = now + max(wait_s, pause_s)
        self.answer()


class SharedRates:
    """`on_asked` gets each slice whose bucket is to be asked: what sets it answers by `on_granted`,
    or calls `count_alone`.

    `on_alone` gets why this instance counts alone from now on.
    """

    def __init__(self, limit: int = LIMIT, *, clock: Clock = steady) -> None:
        self.on_asked: Callable[[RateSlice], None] = lambda _: None
        self.on_alone: Callable[[str], None] = lambda _: None
        self._slices: BoundedCache[str, RateSlice] = BoundedCache(limit)
        self._alone = RateLimits(limit)
        self._alone_until = -math.inf
        self._clock = clock

    def allow(self, policy: Policy, tenant_id: str, now: float) -> float | None:
        """Take a token: None. Without one: the milliseconds until the next token. Raises RateShort."""
        limit = policy.rate_limit
        if limit is None:
            return None
        if now < self._alone_until:
            return self._alone.allow(policy, tenant_id, now)
        key = name_bucket(policy, tenant_id)
        one = self._slices.get(key, now)
        if one is None:
            one = RateSlice(tenant_id, policy.policy_id, limit)
            self._slices.put(key, one, now + KEPT_S, now, owner=tenant_id)
        one.limit = limit
        if one.tokens > 0 and now < one.held_until:
            one.tokens -= 1
            if one.tokens < one.size >> 1 and not one.is_asked and now >= one.refused_until:
                self._ask(one, now)
            return None
        if now < one.refused_until:
            return math.ceil((one.refused_until - now) * 1000)
        if not one.is_asked:
            self._ask(one, now)
        raise RateShort(one, self.count_alone)

    def give_back(self, policy: Policy, tenant_id: str, now: float) -> None:
        """The token of a request that is tried again."""
        if policy.rate_limit is None:
            return
        if now < self._alone_until:
            self._alone.give_back(policy, tenant_id, now)
        elif (one := self._slices.get(name_bucket(policy, tenant_id), now)) is not None:
            one.tokens += 1

    def count_alone(self, cause: str) -> None:
        """For some seconds: the bucket cannot be reached."""
        self._alone_until = self._clock() + ALONE_S
        self.on_alone(cause)

    def _ask(self, one: RateSlice, now: float) -> None:
        one.adapt_size(now)
        one.is_asked = True
        self.on_asked(one)
