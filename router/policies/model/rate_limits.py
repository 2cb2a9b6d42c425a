"""Rate limits: one token bucket for each (tenant, policy), kept by this instance alone or shared by
all; and a provider's limit, for which it is left alone.

A bucket is one number, the time at which it is full again (the "virtual scheduling" form of a leaky
bucket): a token moves that time on by 1/rate, and it may lie at most burst/rate ahead of now.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from router.contracts.stored_record import RecordKind
from router.core import ids
from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock, steady
from router.core.lease_short import LeasedSlice, LeaseShort
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
        return self.take(name_bucket(policy, tenant_id), limit, tenant_id, now)

    def take(self, bucket: str, limit: RateLimit, owner: str, now: float) -> float | None:
        """Take a token of this bucket, as `allow` does. `owner`: whose part of the memory it is."""
        token_s = 1 / limit.requests_per_second
        whole_s = limit.burst * token_s
        # further ahead: by an older, slower limit
        full_at = min(self._full_at.get(bucket, now) or now, now + whole_s) + token_s
        wait_s = full_at - whole_s - now
        if wait_s > _SLACK_S:
            return math.ceil((wait_s - _SLACK_S) * 1000)
        # full again, it need not be known any more
        self._full_at.put(bucket, full_at, full_at, now, owner=owner)
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


# -- The token bucket of a rate limit that all instances share: a document of the bucket
# `ROUTER_RATE_LIMITS`.
#
#     key      {tenant}.{policy}
#     value    {full_at_ns}      when it is full again, nanoseconds since the epoch by the server's
#                                clock
#
# docs/reference/policies.md#shared-rate-limit


class RateRecord(Struct, frozen=True):
    """One number: tokens come back with the time."""

    full_at_ns: Annotated[int, Meta(ge=0)] = 0


def build_rate_key(tenant_id: str, policy_id: str) -> str:
    """The bucket's key of a tenant's limit by a policy."""
    return ids.key(tenant_id, policy_id)


read_rate_record = RecordKind(RateRecord, "the tokens of a rate limit").read


# -- Rate limits over all instances: each takes tokens of the shared bucket in advance, a slice,
# and decides from it.
#
# allow ──> a token of the slice; below half of it: the next ones are asked for, in the background
#    ├── no token, and the bucket has just had none ──> refused until the next one
#    ├── no token ──> RateShort: the request waits for the bucket's answer
#    └── the bucket cannot be reached ──> this instance counts alone for a while
#
# A slice is one token at first, and doubles while it is used up quickly, up to a tenth of the
# smaller of rate and burst. Its tokens are dropped after a second: no instance saves them up
# (docs/reference/policies.md#shared-rate-limit).


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

    def __init__(self, slice_: RateSlice, on_silence: Callable[[str], None]) -> None:
        super().__init__("no token")
        self._slice = slice_
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
        slice_ = self._slices.get(key, now)
        if slice_ is None:
            slice_ = RateSlice(tenant_id, policy.policy_id, limit)
            self._slices.put(key, slice_, now + KEPT_S, now, owner=tenant_id)
        slice_.limit = limit
        if slice_.tokens > 0 and now < slice_.held_until:
            slice_.tokens -= 1
            if (
                slice_.tokens < slice_.size >> 1
                and not slice_.is_asked
                and now >= slice_.refused_until
            ):
                self._ask(slice_, now)
            return None
        if now < slice_.refused_until:
            return math.ceil((slice_.refused_until - now) * 1000)
        if not slice_.is_asked:
            self._ask(slice_, now)
        raise RateShort(slice_, self.count_alone)

    def give_back(self, policy: Policy, tenant_id: str, now: float) -> None:
        """The token of a request that is tried again."""
        if policy.rate_limit is None:
            return
        if now < self._alone_until:
            self._alone.give_back(policy, tenant_id, now)
        elif (slice_ := self._slices.get(name_bucket(policy, tenant_id), now)) is not None:
            slice_.tokens += 1

    def count_alone(self, cause: str) -> None:
        """For some seconds: the bucket cannot be reached."""
        self._alone_until = self._clock() + ALONE_S
        self.on_alone(cause)

    def _ask(self, slice_: RateSlice, now: float) -> None:
        slice_.adapt_size(now)
        slice_.is_asked = True
        self.on_asked(slice_)


# -- One provider that limits one tenant: for how long it is left alone, and how it is tried
# afterwards.
#
# `LimitedProviders` keeps them; `narrowed` leaves their providers out of the choice.


CAREFUL_S = 5.0  # no longer is it probed: a tenant that only asks for decisions reports no result
PROBE_S = 1.0  # between two probes


class RateClosure:
    """Times are on the steady clock."""

    __slots__ = ("_probed_until", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self._probed_until = 0.0

    def block_end(self) -> float:
        """When it may be chosen; a time in the past: now."""
        return max(self.until, self._probed_until)

    def begin_probe(self, now: float) -> None:
        self._probed_until = now + PROBE_S

    def extend(self, until: float) -> None:
        self.until, self._probed_until = until, 0.0
