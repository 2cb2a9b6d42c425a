"""The values of a breaker: its rules, a permit for a call, a snapshot of its state, a transition."""

from __future__ import annotations

from msgspec import Struct


class BreakerRules(Struct, frozen=True, kw_only=True):
    """The defaults are an extension's (docs/reference/extensions.md#extension-breaker); a
    provider's come from a policy.

    Rule: docs/reference/policies.md#circuit-breaker.
    """

    failure_threshold: int = 5  # failures in a row that open it
    success_threshold: int = 2  # successful probes that close it
    timeout_s: float = 60.0  # from the opening to the first probe
    half_open_max_calls: int = 3  # probes at once
    error_rate_threshold: float = 0.5  # this share of failures opens it as well,
    error_rate_window_s: float = 60.0  # counted over this span,
    minimum_calls: int = 10  # of at least so many calls
    latency_threshold_ms: float | None = None  # a slower success is a failure


CLOSED = "closed"
OPEN = "open"
HALF_OPEN = "half_open"


class CallPermit(Struct, frozen=True, gc=False):
    """The right to make one call. Every change of state makes earlier permits invalid: their
    outcomes are not counted.
    """

    generation: int  # counts the changes of state
    probe: int = 0  # 0: the permit of a closed breaker, which all callers share


class BreakerSnapshot(Struct, frozen=True):
    """One breaker at one moment. `opened_at_ms`: milliseconds since the epoch, None while closed."""

    state: str  # closed | open | half_open
    opened_at_ms: int | None
    failure_count: int  # failures in a row
    error_rate: float  # 0..1, over the window


class BreakerTransition(Struct, frozen=True):
    """One change of one breaker's state. `left_s`: seconds until probes may begin, 0 unless the
    breaker opened.
    """

    name: str
    before: str
    state: str
    opened_at_ms: int | None
    left_s: float
    is_remote: bool  # another instance's transition, applied by this one
