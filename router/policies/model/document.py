"""The content of a policy document as frozen values: one struct for each kind of object in it.

    Policy (policy.py)
      ├─ Provider*       a candidate for the choice
      ├─ Fallback*       a rule for when no provider is eligible, or a failure is reported
      ├─ StickySessions? keep a session at its provider
      ├─ BreakerConfig?  thresholds of the providers' circuit breakers
      ├─ RoutingStrategy?       how one of the candidates is chosen, where not by weight
      ├─ RateLimit?      how often the policy may be asked
      └─ Pipeline        which extensions run before and after the choice

Bounds and defaults are the parser's; `None` in place of an object means absent or `"enabled":
false`. Source: docs/reference/policies.md#document.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from router.policies.model.conditions import Condition


class Provider(Struct, frozen=True):
    """A candidate. `weight` is its share within its priority tier; the highest tier with an
    eligible provider wins.
    """

    name: str
    weight: float  # 0..100
    priority: int = 50  # 0..100
    expected_latency_ms: float | None = None
    expected_cost: float | None = None
    enabled: bool = True


class Fallback(Struct, frozen=True):
    """One rule: the same provider again while attempts are left (`retry`), then provider `to`."""

    to: str
    when: Mapping[str, object]  # as written: lint and explain read it
    applies: Condition  # the same, compiled
    retry: int = 1  # further attempts at the same provider
    backoff_ms: tuple[int, ...] = ()  # pause before each retry; the last repeats


class StickySessions(Struct, frozen=True):
    """Session affinity: requests with the same `context[session_key]` stay with one provider for
    `ttl_s` seconds.
    """

    session_key: str = "session_id"
    ttl_s: int = 600


class BreakerConfig(Struct, frozen=True):
    """The thresholds of the circuit breakers of this policy's providers, one per (tenant,
    provider).
    """

    failure_threshold: int = 5
    success_threshold: int = 2
    timeout_ms: int = 60_000
    half_open_max_calls: int = 3
    error_rate_threshold: float = 0.5
    error_rate_window_seconds: int = 60
    minimum_calls: int = 10
    latency_threshold_ms: float | None = None


class RoutingStrategy(Struct, frozen=True):
    """A choice by learned figures: of two drawn providers the faster one, or of all the cheapest
    that meets the objectives.
    """

    type: str  # least_latency | cheapest
    # 0..1: this share of requests goes to any provider of the tier, so that each stays measured
    explore: float = 0.01
    p95_latency_ms: float | None = None  # objectives of cheapest
    success_rate: float | None = None


class RateLimit(Struct, frozen=True):
    """A token bucket per (tenant, policy), over all instances."""

    requests_per_second: float
    burst: int


class ExtensionUse(Struct, frozen=True):
    """One extension in a pipeline. `mode`: required | optional, of a validator block | warn | ignore."""

    id: str
    mode: str
    config: Mapping[str, object]
    when: Mapping[str, object]
    applies: Condition
    timeout_ms: int | None = None  # None: the registry's
    retry: int | None = None  # None: the registry's


class Pipeline(Struct, frozen=True):
    """The extensions of a policy, each kind in the order of the document."""

    pre: tuple[ExtensionUse, ...] = ()
    validators: tuple[ExtensionUse, ...] = ()
    post: tuple[ExtensionUse, ...] = ()
    parallel: bool = False  # neighbours of one stage may run side by side

    @property
    def is_empty(self) -> bool:
        return not (self.pre or self.validators or self.post)


class PolicyFinding(Struct, frozen=True):
    """A remark about a document: `severity` is warning or error, `path` is like
    `providers[1].weight`.
    """

    path: str
    severity: str
    message: str
