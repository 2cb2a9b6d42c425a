"""The providers' breakers, one for each (tenant, provider) that a policy with a breaker names, and
how an opened one stands in its bucket.

    a result       ── observe ──> its failure class (`contracts.failure_class`) ──> its breaker
    a decision     ── find_not_closed ──> the tenant's breakers that are open or half open; None: all are closed
                   ── on_decision ──> a probe's permit, until the assignment's deadline
    other routers  ── apply_remote ──> an opening or a closing is applied here

Each instance counts for itself. A result names no permit, and may reach another instance than the
one that decided. So while a breaker is half open, every outcome counts whose work began after the
opening (the result's latency tells), and it frees the oldest probe. The latency leaves out the wait
for a worker; that wait ends with the longest deadline, which is the default timeout.

`ProviderRules`, which stands first, says by which policy's rules a breaker works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Annotated, Literal

from msgspec import Meta, Struct

from router.contracts.assignment import deadline_ms
from router.contracts.decision import Decision
from router.contracts.failure_class import PROVIDER, classify_outcome
from router.contracts.stored_record import KeyedRecord
from router.core import ids
from router.core.bounded_cache import BoundedCache
from router.core.breakers import (
    CLOSED,
    OPEN,
    BreakerRules,
    BreakerSnapshot,
    BreakerTransition,
    CircuitBreaker,
)
from router.core.breakers.breaker import OnTransition
from router.core.clock import Clock, steady, wall
from router.policies.model.narrowed import BlockedTenants, StatesBehindBreakers
from router.policies.model.policy import SHARED, BreakerConfig, Policy, list_arms

# -- The breakers.

MAX_WORK_MS = deadline_ms(inf)  # a worker works no longer than this, whatever latency it reports

Table = Mapping[tuple[str, str], Policy]


class RemoteTransition(Struct, frozen=True):
    """A transition on another instance: open until a moment of the steady clock, or closed (None)."""

    until: float | None
    opened_at_ms: int


class ProviderBreakers:
    """At most `limit` breakers; the one longest without a result is dropped first. `policies`
    returns the current table by (tenant, policy), the same object until it changes. Pairs are
    (tenant, provider).

    Openings of other instances are kept until their time is over, at most `limit`: a breaker that
    is created later honours them. A breaker's name is `{tenant}/{provider}`: neither can hold a
    slash.
    """

    def __init__(
        self,
        policies: Callable[[], Table],
        *,
        limit: int = 10_000,
        now: Clock = steady,
        today: Clock = wall,
        on_create: Callable[[str, str], None] = lambda *_: None,
        on_change: OnTransition = lambda _: None,
    ) -> None:
        self.blocked = BlockedTenants()  # shared with the rate limits
        self._policies = policies
        # the one longest without a result first
        self._order: BoundedCache[Pair, bool] = BoundedCache(limit, self._forget)
        self._now = now
        self._today = today
        self._on_create = on_create
        self._on_change = on_change
        self._breakers: dict[Pair, CircuitBreaker] = {}
        # openings, until their time is over
        self._remote: BoundedCache[Pair, RemoteTransition] = BoundedCache(limit)
        self._policies_seen: Table = {}
        self._rules = ProviderRules({})

    def observe(
        self,
        tenant_id: str,
        provider_id: str,
        *,
        latency_ms: int,
        cost: float,
        status: str,
        error_code: str | None,
    ) -> bool:
        """One outcome, once. Returns whether the breaker opened by it."""
        breaker = self._find(tenant_id, provider_id)
        if breaker is None:
            return False
        begun = self._now() - min(latency_ms, MAX_WORK_MS) / 1000
        if (permit := breaker.permit_for_outcome(begun)) is None:
            return False
        outcome = classify_outcome(status, error_code)
        if outcome is None:
            breaker.record_success(permit, latency_ms)
        elif outcome is PROVIDER:
            breaker.record_failure(permit)
        else:
            breaker.release(permit)
        return breaker.state == OPEN  # there is no permit while it is

    def find_not_closed(self, tenant_id: str) -> StatesBehindBreakers | None:
        """The tenant's breakers that are open or half open, and its rate limits; None when there
        are none.
        """
        self._refresh_rules()
        return self.blocked.get(tenant_id)

    def on_decision(self, tenant_id: str, decision: Decision) -> None:
        """A decision was made for this provider: half open, it is a probe until its assignment's
        deadline.

        Rule: docs/reference/extensions.md#provider-breaker.
        """
        shut = self.blocked.get(tenant_id)
        if shut is not None and (breaker := shut.breakers.get(decision.provider_id)) is not None:
            breaker.acquire(deadline_ms(decision.expected_latency_ms) / 1000)

    def apply_remote(self, news: Mapping[Pair, RemoteTransition]) -> None:
        """Apply the transitions that other instances have published since the last call."""
        now = self._now()
        for pair, told in news.items():
            if told.until is None or told.until <= now:
                self._remote.remove(pair)
            else:
                self._remote.put(pair, told, told.until, now, owner=pair[0])
            if (breaker := self._find(*pair)) is not None:
                self._apply(pair[0], breaker, told)

    def snapshots(self) -> Mapping[Pair, BreakerSnapshot]:
        self._refresh_rules()
        return {pair: breaker.snapshot for pair, breaker in self._breakers.items()}

    def list_not_closed(self) -> Iterator[tuple[Pair, str]]:
        """Pair and state of every breaker that is open or half open."""
        self._refresh_rules()
        return (
            ((tenant_id, name), breaker.phase)
            for tenant_id, shut in self.blocked.items()
            for name, breaker in shut.breakers.items()
        )

    def __len__(self) -> int:
        return len(self._breakers)

    def _find(self, tenant_id: str, provider_id: str) -> CircuitBreaker | None:
        """None: no policy asks for a breaker of this provider."""
        self._refresh_rules()
        pair = tenant_id, provider_id
        breaker = self._breakers.get(pair)
        if breaker is not None:
            self._order.get(pair, 0.0)
            return breaker
        rules = self._rules.find(tenant_id, provider_id)
        return self._create(pair, rules) if rules is not None else None

    def _create(self, pair: Pair, rules: BreakerRules) -> CircuitBreaker:
        breaker = self._breakers[pair] = CircuitBreaker(
            "/".join(pair), rules, now=self._now, today=self._today, on_change=self._on_transition
        )
        self._on_create(*pair)
        self._order.put(pair, True, inf, 0.0, owner=pair[0])
        if (told := self._find_remote_opening(pair)) is not None:
            self._apply(pair[0], breaker, told)
        return breaker

    def _find_remote_opening(self, pair: Pair) -> RemoteTransition | None:
        """The opening that another instance has published, while its time is not over."""
        return self._remote.peek(pair, self._now())

    def _apply(self, tenant_id: str, breaker: CircuitBreaker, told: RemoteTransition) -> None:
        if told.until is None:
            breaker.apply_remote_close()
        else:
            breaker.apply_remote_open(told.until - self._now(), told.opened_at_ms)
            if (shut := self.blocked.get(tenant_id)) is not None:
                shut.on_change()  # the end of one that was open has moved, which is no transition

    def _on_transition(self, transition: BreakerTransition) -> None:
        tenant_id, _, provider_id = transition.name.partition("/")
        if transition.state == CLOSED:
            self._remove_not_closed(tenant_id, provider_id)
        else:
            self.blocked.enter(tenant_id).breakers[provider_id] = self._breakers[
                tenant_id, provider_id
            ]
        self._on_change(transition)

    def _refresh_rules(self) -> None:
        """After a change of the policies: update rules, drop breakers that no policy names, create
        those with a remote transition.
        """
        if self._policies() is self._policies_seen:
            return
        self._policies_seen = self._policies()
        self._rules = ProviderRules(self._policies_seen, self._rules)
        for pair, breaker in list(self._breakers.items()):
            rules = self._rules.find(*pair)
            if rules is None:
                self._order.remove(pair)
                self._forget(pair)
            elif rules != breaker.rules:
                breaker.set_rules(rules)
        for pair in filter(self._find_remote_opening, self._remote.keys()):
            self._find(*pair)

    def _forget(self, pair: Pair) -> None:
        del self._breakers[pair]
        self._remove_not_closed(*pair)

    def _remove_not_closed(self, tenant_id: str, provider_id: str) -> None:
        shut = self.blocked.get(tenant_id)
        if shut is not None:
            shut.breakers.pop(provider_id, None)
            self.blocked.drop_if_free(tenant_id)


# -- The rules of a provider's breaker (docs/reference/extensions.md#provider-breaker).
#
# A breaker belongs to a tenant and a provider, not to a policy. So of several policies one
# gives the rules: the tenant's own before a shared one; among these the one that opens after
# the fewest failures, then the one with the longest timeout, then the first by name. Every
# policy of the tenant respects the breaker, also one that has none: a provider that is down is
# down for all.

Pair = tuple[str, str]  # tenant (or `_shared`), provider


class ProviderRules:
    """The rules that follow from one table of policies, by (tenant, policy).

    A tenant's rules are computed at their first lookup, and copied from the table `before` where
    the tenant's policies are the same objects: a change of one tenant's policy costs the other
    tenants nothing.
    """

    def __init__(
        self, policies: Mapping[tuple[str, str], Policy], before: ProviderRules | None = None
    ) -> None:
        self._policies: dict[str, list[Policy]] = {}
        for policy in list_arms(policies.values()):
            if policy.circuit_breaker is not None:
                self._policies.setdefault(policy.tenant_id, []).append(policy)
        self._rules: dict[str, Mapping[str, BreakerRules]] = {}
        if before is not None:
            self._rules |= {
                tenant: rules
                for tenant, rules in before._rules.items()
                if self._is_unchanged(before, tenant)
            }

    def find(self, tenant_id: str, provider_id: str) -> BreakerRules | None:
        return self._rules_of_tenant(tenant_id).get(provider_id) or self._rules_of_tenant(
            SHARED
        ).get(provider_id)

    def _rules_of_tenant(self, tenant_id: str) -> Mapping[str, BreakerRules]:
        if tenant_id not in self._policies:
            return _NO_RULES  # a tenant without policies takes no memory: clients can invent names
        rules = self._rules.get(tenant_id)
        if rules is None:
            rules = self._rules[tenant_id] = _collect_rules(self._policies[tenant_id])
        return rules

    def _is_unchanged(self, before: ProviderRules, tenant_id: str) -> bool:
        mine, theirs = self._policies.get(tenant_id, []), before._policies.get(tenant_id, [])
        return len(mine) == len(theirs) and all(
            one is other for one, other in zip(mine, theirs, strict=True)
        )


_NO_RULES: Mapping[str, BreakerRules] = {}


def _collect_rules(policies: Iterable[Policy]) -> Mapping[str, BreakerRules]:
    rules: dict[str, BreakerRules] = {}
    for policy in sorted(policies, key=_least_careful_first):
        if policy.circuit_breaker is not None:
            rules |= dict.fromkeys(
                (provider for provider, _ in policy.plan.decisions),
                _rules_of(policy.circuit_breaker),
            )
    return rules


def _least_careful_first(policy: Policy) -> tuple[int, int, tuple[int, ...]]:
    breaker = policy.circuit_breaker or BreakerConfig()
    return (
        -breaker.failure_threshold,
        breaker.timeout_ms,
        tuple(-ord(letter) for letter in policy.policy_id),
    )


def _rules_of(breaker: BreakerConfig) -> BreakerRules:
    return BreakerRules(
        failure_threshold=breaker.failure_threshold,
        success_threshold=breaker.success_threshold,
        timeout_s=breaker.timeout_ms / 1000,
        half_open_max_calls=breaker.half_open_max_calls,
        error_rate_threshold=breaker.error_rate_threshold,
        error_rate_window_s=float(breaker.error_rate_window_seconds),
        minimum_calls=breaker.minimum_calls,
        latency_threshold_ms=breaker.latency_threshold_ms,
    )


# -- How an opened or closed provider breaker, or a rate limit, stands in its bucket
# (docs/reference/extensions.md#provider-breaker).
#
#     {tenant_id, provider_id, state: open | closed | limited, opened_at_ms, until_ms, node, life}
#
# Half open is never written: every instance comes to it by itself at `until_ms`, and probes are
# each instance's own. A rate limit has a key of its own, because a provider may limit a tenant
# while its breaker is open.


LIMITED = "limited"

_Moment = Annotated[int, Meta(ge=0)]  # milliseconds since the epoch


class BreakerRecord(Struct, frozen=True, kw_only=True):
    """One transition. `node` names the instance to people, `life` one process: a node's name may
    come back.
    """

    tenant_id: str
    provider_id: str
    state: Literal["open", "closed", "limited"]
    opened_at_ms: _Moment
    until_ms: _Moment  # no call before; 0 when closed
    node: str
    life: str

    @property
    def key(self) -> str:
        make_key = limit_key if self.state == LIMITED else breaker_key
        return make_key(self.tenant_id, self.provider_id)


def breaker_key(tenant_id: str, provider_id: str) -> str:
    return ids.key(tenant_id, provider_id)


def limit_key(tenant_id: str, provider_id: str) -> str:
    return ids.key(tenant_id, provider_id, LIMITED)


read_breaker_record = KeyedRecord(BreakerRecord, "a breaker's record").read
