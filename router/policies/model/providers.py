"""The run-time state of all providers as one object: averages, circuit breakers, rate limits,
sessions, and what strategies choose by.

Results feed it, decisions read it. While all breakers of a tenant are closed, and no provider
limits it, its states are the averages' own object: NO_STATES when there are none, so that
`evaluate` takes its fast path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, inf

from router.contracts.decision import Decision
from router.contracts.failure_class import RATE_LIMIT, FailureClass, classify_outcome
from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock, steady
from router.policies.model.breakers import ProviderBreakers
from router.policies.model.measurements import Measurements
from router.policies.model.narrowed import (
    NO_STATES,
    AverageStates,
    BlockedTenants,
    ProviderState,
    ProviderStates,
)
from router.policies.model.policy import DEFAULT_COST, PROBE
from router.policies.model.rate_limits import CAREFUL_S, RateClosure

# -- The providers that limit a tenant are left alone for a while, whether or not a policy has a
# circuit breaker.
#
# a result of the class `rate_limit` ── Retry-After, else a setting ──> closed: no decision chooses it
# its time is over ──> probed: one request in a second, until a result says how it is, for CAREFUL_S at most
# a result of another class, of work that began afterwards ──> as before
#
# So a provider does not get all the requests at once that waited for it. Closings are shared
# among instances as openings of breakers are (docs/reference/extensions.md#rate-limited); what is
# probed is each instance's own.


# an end that is later by less than this is the same one: it is neither kept nor shared
MOVED_S = 0.5

Pair = tuple[str, str]  # tenant, provider
OnLimited = Callable[[str, str, float], None]  # tenant, provider, seconds


class LimitedProviders:
    """At most `limit` of them, a share for each tenant. `blocked` is shared with the breakers.

    `on_limited` is called with each closing that this instance finds. `find_span_s`: how long it
    lasts, by what the provider says.
    """

    def __init__(
        self,
        blocked: BlockedTenants,
        find_span_s: Callable[[float | None], float],
        on_limited: OnLimited,
        *,
        limit: int = 10_000,
        now: Clock = steady,
    ) -> None:
        self._blocked = blocked
        self._find_span_s = find_span_s
        self._on_limited = on_limited
        self._now = now
        # None expires here: what is dropped must leave `blocked` too, and only `_forget` does that.
        self._pairs: BoundedCache[Pair, bool] = BoundedCache(limit, self._forget)

    def observe(
        self,
        tenant_id: str,
        provider_id: str,
        outcome: FailureClass | None,
        latency_ms: float,
        retry_after_ms: int | None,
    ) -> None:
        """One outcome, once."""
        if outcome is RATE_LIMIT:
            left_s = self._find_span_s(
                retry_after_ms / 1000 if retry_after_ms is not None else None
            )
            if self._close(tenant_id, provider_id, left_s):
                self._on_limited(tenant_id, provider_id, left_s)
            return
        shut = self._blocked.get(tenant_id)
        limit = shut.limits.get(provider_id) if shut is not None else None
        if limit is not None and self._now() - latency_ms / 1000 >= limit.until:
            self._remove((tenant_id, provider_id))

    def apply_remote(self, news: Mapping[Pair, float]) -> None:
        """Closings that other instances have found: seconds that are left of each."""
        for (tenant_id, provider_id), left_s in news.items():
            if left_s > 0:
                self._close(tenant_id, provider_id, self._find_span_s(left_s))

    def on_decision(self, tenant_id: str, provider_id: str) -> None:
        """A decision was made for this provider: after a closing it is a probe."""
        shut = self._blocked.get(tenant_id)
        limit = shut.limits.get(provider_id) if shut is not None else None
        if limit is not None:
            limit.begin_probe(self._now())

    def find_left_ms(self, tenant_id: str, provider_id: str) -> int:
        """For how long the provider is left alone; 0: it may be asked."""
        shut = self._blocked.get(tenant_id)
        limit = shut.limits.get(provider_id) if shut is not None else None
        return 0 if limit is None else max(0, ceil((limit.until - self._now()) * 1000))

    def drop_ended(self, tenant_id: str) -> None:
        """Forget closings whose time, and the time of care after it, is over. Called where the
        tenant has some.
        """
        kept_from = self._now() - CAREFUL_S
        limits = self._blocked[tenant_id].limits
        for name in [name for name, limit in limits.items() if limit.until <= kept_from]:
            self._remove((tenant_id, name))

    def __len__(self) -> int:
        return len(self._pairs)

    def _close(self, tenant_id: str, provider_id: str, left_s: float) -> bool:
        """Whether this is news."""
        now = self._now()
        until = now + left_s
        limited = (
            self._blocked[tenant_id].limits.get(provider_id) if tenant_id in self._blocked else None
        )
        if limited is not None and until < limited.until + MOVED_S:
            return False
        shut = self._blocked.enter(tenant_id)
        if limited is None:
            shut.limits[provider_id] = RateClosure(until)
        else:
            limited.extend(until)
        self._pairs.put((tenant_id, provider_id), True, inf, now, owner=tenant_id)
        return True

    def _remove(self, pair: Pair) -> None:
        self._pairs.remove(pair)
        self._forget(pair)

    def _forget(self, pair: Pair) -> None:
        tenant_id, provider_id = pair
        shut = self._blocked.get(tenant_id)
        if shut is not None:
            shut.limits.pop(provider_id, None)
            self._blocked.drop_if_free(tenant_id)


# -- The run-time state of all providers as one object: averages, circuit breakers, rate limits,
# and what strategies choose by.


# -- The tracker.


class ProviderTracker:
    """`results.ProviderFigures`, and the states of the decisions. `limits` share
    `breakers.blocked`.
    """

    def __init__(
        self,
        averages: Averages,
        breakers: ProviderBreakers,
        limits: LimitedProviders,
        measurements: Measurements | None = None,
    ) -> None:
        self.averages = averages
        self.breakers = breakers
        self.limits = limits
        self.measurements = measurements if measurements is not None else Measurements()
        self.figures_of = self.measurements.figures_of

    def observe(
        self,
        tenant_id: str,
        provider_id: str,
        *,
        latency_ms: int,
        cost: float,
        status: str,
        error_code: str | None,
        retry_after_ms: int | None,
        assignment_id: str,
        listed_cost: float,
    ) -> None:
        """Add one outcome. The caller reports each outcome once. `listed_cost`: what the policy
        expects of a success.
        """
        self.averages.observe(
            tenant_id,
            provider_id,
            latency_ms=latency_ms,
            cost=cost,
            status=status,
            error_code=error_code,
            listed_cost=listed_cost,
        )
        has_opened = self.breakers.observe(
            tenant_id,
            provider_id,
            latency_ms=latency_ms,
            cost=cost,
            status=status,
            error_code=error_code,
        )
        outcome = classify_outcome(status, error_code)
        self.limits.observe(tenant_id, provider_id, outcome, latency_ms, retry_after_ms)
        self.measurements.on_result(
            tenant_id,
            provider_id,
            assignment_id,
            latency_ms,
            cost,
            outcome,
            listed_cost=listed_cost,
        )
        if has_opened:
            self.measurements.on_opened(tenant_id, provider_id)

    def states_of(self, tenant_id: str) -> ProviderStates:
        """The tenant's providers at this moment."""
        averages, shut = (
            self.averages.states_of(tenant_id),
            self.breakers.find_not_closed(tenant_id),
        )
        if shut is None:
            return averages
        if shut.limits:
            self.limits.drop_ended(tenant_id)
        shut.averages = averages
        return shut

    def on_decision(self, tenant_id: str, decision: Decision) -> None:
        """A decision that may be a probe: of a breaker, after a rate limit, or of a provider that
        fails.
        """
        self.breakers.on_decision(tenant_id, decision)
        self.limits.on_decision(tenant_id, decision.provider_id)
        if decision.reason == PROBE:
            self.measurements.on_probe(tenant_id, decision.provider_id)


# -- Moving averages of the latency and the cost of each (tenant, provider), learned from results.
#
# Only successes count: a refusal that came back in a millisecond must not make its provider look
# fast. Each new figure weighs `AVERAGE_WEIGHT`, so an average follows a change within a few dozen
# results. A figure is clipped before it counts, to an hour, a cost of 1e9 and `MAX_STEP` times the
# average, so that one wrong clock cannot move an average for long. A cost begins at what the policy
# expects, and moves from there by the same steps: one free result makes no provider free. Each
# instance keeps its own averages, a bounded number: the pair longest without a result is dropped
# first, those of a tenant above its share before others.

AVERAGE_WEIGHT = 0.1
MAX_STEP = 10.0  # one figure moves an average to at most 1.9 times of what it was
MAX_LATENCY_MS, MAX_COST = 3_600_000.0, 1e9
SUCCESS = "success"


class Averages:
    """At most `limit` pairs. Results feed it (`observe`), decisions read it (`states_of`)."""

    def __init__(self, limit: int = 20_000, weight: float = AVERAGE_WEIGHT) -> None:
        self._weight = weight
        self._tenants: dict[str, AverageStates] = {}
        # longest without a result first
        self._pairs: BoundedCache[tuple[str, str], bool] = BoundedCache(limit, self._forget)

    def states_of(self, tenant_id: str) -> ProviderStates:
        """The tenant's providers; the object NO_STATES when no average is known, so that `evaluate`
        takes its fast path.
        """
        return self._tenants.get(tenant_id, NO_STATES)

    def observe(
        self,
        tenant_id: str,
        provider_id: str,
        *,
        latency_ms: int,
        cost: float,
        status: str,
        error_code: str | None,
        listed_cost: float = DEFAULT_COST,
    ) -> None:
        """Add one outcome. The caller reports each outcome once. `listed_cost`: what the policy
        expects.
        """
        if status != SUCCESS:
            return
        states = self._tenants.get(tenant_id)
        if states is None:
            states = self._tenants[tenant_id] = AverageStates()
        before = states.get(provider_id) or ProviderState()
        states[provider_id] = ProviderState(
            latency_ms=self._average(before.latency_ms, latency_ms, MAX_LATENCY_MS),
            cost=self._average(listed_cost if before.cost is None else before.cost, cost, MAX_COST),
            samples=before.samples + 1,
        )
        states.learned.clear()
        pair = tenant_id, provider_id
        if self._pairs.get(pair, 0.0) is None:  # seldom; else it is the most recent one now
            self._pairs.put(pair, True, inf, 0.0, owner=tenant_id)

    def _average(self, average: float | None, figure: float, most: float) -> float:
        figure = min(float(figure), most)
        if average is None:
            return figure
        clipped = min(figure, MAX_STEP * average) if average > 0 else figure
        return average + self._weight * (clipped - average)

    def _forget(self, pair: tuple[str, str]) -> None:
        tenant_id, provider_id = pair
        del self._tenants[tenant_id][provider_id]
        self._tenants[tenant_id].learned.clear()
        if not self._tenants[tenant_id]:
            del self._tenants[tenant_id]

    def __len__(self) -> int:
        return len(self._pairs)


# -- The provider of each session: a bounded memory, with the policy's ttl, never shared between
# tenants.
#
# The draw already gives a session the same provider on every instance. This memory keeps the
# session there while weights change. The ttl runs from `remember`; `recall` does not prolong it.


class Sessions:
    """At most `limit` sessions; the least recently used one is dropped first, those of a tenant
    above its share before others.
    """

    def __init__(self, limit: int = 100_000, clock: Clock = steady) -> None:
        self._clock = clock
        self._choices: BoundedCache[str, str] = BoundedCache(limit)

    def recall(self, tenant_id: str, policy_id: str, session: str) -> str | None:
        return self._choices.get(_key(tenant_id, policy_id, session), self._clock())

    def remember(
        self, tenant_id: str, policy_id: str, session: str, provider_id: str, ttl_s: float
    ) -> None:
        now = self._clock()
        self._choices.put(
            _key(tenant_id, policy_id, session), provider_id, now + ttl_s, now, owner=tenant_id
        )

    def __len__(self) -> int:
        return len(self._choices)


def _key(tenant_id: str, policy_id: str, session: str) -> str:
    """Holds the tenant, also for a shared policy. A text, because the garbage collector would scan
    a tuple.
    """
    return f"{tenant_id}\0{policy_id}\0{session}"  # no id holds a zero byte
