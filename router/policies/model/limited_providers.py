"""The providers that limit a tenant are left alone for a while, whether or not a policy has a
circuit breaker.

    a result of the class `rate_limit` ── Retry-After, else a setting ──> closed: no decision chooses it
    its time is over ──> probed: one request in a second, until a result says how it is, for CAREFUL_S at most
    a result of another class, of work that began afterwards ──> as before

So a provider does not get all the requests at once that waited for it. Closings are shared among
instances as openings of breakers are (docs/reference/extensions.md#rate-limited); what is probed is
each instance's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, inf

from router.contracts.failure_class import RATE_LIMIT, FailureClass
from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock, steady
from router.policies.model.narrowed import BlockedTenants
from router.policies.model.rate_closure import CAREFUL_S, RateClosure

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
        known = (
            self._blocked[tenant_id].limits.get(provider_id) if tenant_id in self._blocked else None
        )
        if known is not None and until < known.until + MOVED_S:
            return False
        shut = self._blocked.enter(tenant_id)
        if known is None:
            shut.limits[provider_id] = RateClosure(until)
        else:
            known.extend(until)
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
