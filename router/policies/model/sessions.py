"""The provider of each session: a bounded memory, with the policy's ttl, never shared between
tenants.

The draw already gives a session the same provider on every instance. This memory keeps the session
there while weights change. The ttl runs from `remember`; `recall` does not prolong it.
"""

from __future__ import annotations

from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock, steady


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
