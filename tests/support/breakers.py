"""Circuit breakers on clocks that stand still, and a record of their changes."""

from collections.abc import Mapping

from router.core.breakers import (
    BreakerRegistry,
    BreakerRules,
    BreakerTransition,
    CallPermit,
    CircuitBreaker,
)
from router.core.clock import Clock, steady
from router.policies.model import LimitedProviders, Policy, PolicyTable, ProviderBreakers
from router.work.settings import ProvidersConfig
from tests.support.policy import a_policy, a_provider

PERMIT_S = 5.0
WALL_S = 1_700_000_000.0  # the wall clock when the steady one says 0


class FrozenClocks:
    """A steady clock that moves when told, and the wall clock beside it."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at

    def today(self) -> float:
        return WALL_S + self.at

    @property
    def today_ms(self) -> int:
        return round(self.today() * 1000)


class TimedBreaker:
    """One breaker, its clock and its changes as `was>state`."""

    def __init__(self, **rules: object) -> None:
        self.clock = FrozenClocks()
        self.transitions: list[BreakerTransition] = []
        self.breaker = CircuitBreaker(
            "echo",
            BreakerRules(**rules),  # type: ignore[arg-type]
            now=self.clock,
            today=self.clock.today,
            on_change=self.transitions.append,
        )

    @property
    def changes(self) -> list[str]:
        return [f"{transition.before}>{transition.state}" for transition in self.transitions]

    @property
    def state(self) -> str:
        return self.breaker.snapshot.state

    def acquire(self) -> CallPermit:
        permit = self.breaker.acquire(PERMIT_S)
        assert permit is not None
        return permit

    def fail(self, times: int = 1) -> None:
        for _ in range(times):
            self.breaker.record_failure(self.acquire())

    def succeed(self, times: int = 1, latency_ms: float = 1.0) -> None:
        for _ in range(times):
            self.breaker.record_success(self.acquire(), latency_ms)

    def open(self) -> "TimedBreaker":
        self.fail(self.breaker.rules.failure_threshold)
        assert self.state == "open"
        return self

    def half_open(self) -> "TimedBreaker":
        """Open it, and pass the time after which it is half open; no permit is in use."""
        self.open().pass_time(self.breaker.rules.timeout_s)
        return self

    def pass_time(self, seconds: float) -> None:
        self.clock.at += seconds


def a_registry(*, now: Clock = steady, **rules: object) -> BreakerRegistry:
    """The breakers of extensions, of which no one is told."""
    return BreakerRegistry(lambda _: BreakerRules(**rules), now=now, on_change=lambda _: None)  # type: ignore[arg-type]


def end_opening(breaker: CircuitBreaker) -> float:
    """Put its opening as far back as it was to last: its time is over now. Returns how many seconds
    that were.

    For a breaker of a live router: no test need be faster than an opening, or wait for its end.
    """
    lasting_s = breaker._until - breaker._opened_at
    breaker._opened_at -= lasting_s
    breaker._until -= lasting_s
    return lasting_s


def end_provider_opening(breakers: ProviderBreakers, tenant_id: str, provider_id: str) -> float:
    """The same for a provider's; plans that were kept for the time of the opening are made anew."""
    breakers.blocked[tenant_id].on_change()
    return end_opening(breakers._breakers[tenant_id, provider_id])


def end_rate_limit(breakers: ProviderBreakers, tenant_id: str, provider_id: str) -> None:
    """The time for which a provider is left alone is over now; plans that were kept for it are made
    anew.
    """
    shut = breakers.blocked[tenant_id]
    shut.limits[provider_id].until = breakers._now()
    shut.on_change()


BREAKER: Mapping[str, object] = {"enabled": True, "failure_threshold": 3, "timeout_ms": 10_000}


def a_guarded_policy(
    *names: str, tenant: str = "acme", policy_id: str = "default", **breaker: object
) -> Policy:
    """A policy of these providers (else `openai`, `anthropic`) with a circuit breaker."""
    providers = [a_provider(name) for name in names or ("openai", "anthropic")]
    return a_policy(
        *providers, tenant=tenant, policy_id=policy_id, circuit_breaker={**BREAKER, **breaker}
    )


class SomeProviders:
    """The breakers of these policies' providers, fed by hand."""

    def __init__(
        self, *policies: Policy, limit: int = 100, clock: FrozenClocks | None = None
    ) -> None:
        self.clock = clock or FrozenClocks()
        self.transitions: list[BreakerTransition] = []
        self.policies = PolicyTable()
        self.replace(*(policies or (a_guarded_policy(),)))
        self.breakers = ProviderBreakers(
            self.policies.get_all,
            limit=limit,
            now=self.clock,
            today=self.clock.today,
            on_change=self.transitions.append,
        )
        self.told: list[tuple[str, str, float]] = []
        self.limits = LimitedProviders(
            self.breakers.blocked,
            ProvidersConfig().find_span_s,
            lambda *limit: self.told.append(limit),
            limit=limit,
            now=self.clock,
        )

    def replace(self, *policies: Policy) -> None:
        self.policies.replace({(policy.tenant_id, policy.policy_id): policy for policy in policies})

    def report(
        self,
        times: int = 1,
        *,
        tenant: str = "acme",
        provider: str = "openai",
        status: str = "error",
        code: str | None = "SERVER_ERROR",
        latency_ms: int = 100,
    ) -> None:
        for _ in range(times):
            self.breakers.observe(
                tenant, provider, latency_ms=latency_ms, cost=0.01, status=status, error_code=code
            )

    def succeed(self, times: int = 1, provider: str = "openai", latency_ms: int = 100) -> None:
        self.report(times, provider=provider, status="success", code=None, latency_ms=latency_ms)

    def state(self, tenant: str = "acme", provider: str = "openai") -> str | None:
        standing = self.breakers.snapshots().get((tenant, provider))
        return standing.state if standing is not None else None
