"""What a breaker is made of: its values, what it counts, and pybreaker's three states, driven by
outcomes that are known already.

pybreaker's `CircuitBreaker.call` gets a function that returns or raises at once, and is never
called while open: `breaker` sets half open, by a steady clock. Only pybreaker's counts, thresholds
and transitions are used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct
from pybreaker import (
    STATE_CLOSED,
    STATE_HALF_OPEN,
    STATE_OPEN,
    CircuitBreaker,
    CircuitBreakerListener,
    CircuitBreakerState,
)

# -- The values of a breaker: its rules, a permit for a call, a snapshot of its state, a
# transition.


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


# -- pybreaker's three states, driven by outcomes that are known already.


_NAMES = {STATE_CLOSED: CLOSED, STATE_OPEN: OPEN, STATE_HALF_OPEN: HALF_OPEN}


class States:
    """`on_change` is called with each new state, inside the change."""

    def __init__(self, rules: BreakerRules, on_change: Callable[[str], None]) -> None:
        self._breaker = CircuitBreaker(
            rules.failure_threshold,
            success_threshold=rules.success_threshold,
            listeners=[_Listener(on_change)],
            throw_new_error_on_trip=False,
        )

    def set_rules(self, rules: BreakerRules) -> None:
        """Use other thresholds; the counts stay."""
        self._breaker.fail_max, self._breaker.success_threshold = (
            rules.failure_threshold,
            rules.success_threshold,
        )

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return self._breaker.fail_counter

    def record(self, *, failed: bool) -> None:
        """Count one outcome. Only for a closed or half-open breaker."""
        with suppress(_FailedError):
            self._breaker.call(_fail if failed else _return_none)

    def open(self) -> None:
        self._breaker.open()

    def half_open(self) -> None:
        self._breaker.half_open()

    def close(self) -> None:
        self._breaker.close()


class _Listener(CircuitBreakerListener):
    def __init__(self, moved: Callable[[str], None]) -> None:
        self._on_change = moved

    def state_change(
        self,
        cb: CircuitBreaker,
        old_state: CircuitBreakerState | None,
        new_state: CircuitBreakerState,
    ) -> None:
        self._on_change(_NAMES[new_state.name])


class _FailedError(Exception):
    """Raised inside `call` to make pybreaker count a failure; it never leaves this file."""


def _return_none() -> None:
    """A call that went well."""


def _fail() -> None:
    raise _FailedError


# -- What a breaker counts: the error rate of the last calls, and the probes in flight while it is
# half open.
#
# The error rate is that of a sliding window in a bounded number of slices. A slice begins with
# the first call after the slice before it is full, and is dropped as a whole when its beginning
# is older than the window. So a call counts for at least 19/20 of the window, and never for
# longer than the window. Each probe has an expiry, so that a caller that never reports an outcome
# does not block a place.


SLICES = 20


class Window:
    """Calls and failures of the last `span_s` seconds. `now` is on one steady clock."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._slices: deque[list[float]] = deque()  # [begin, calls, failures]
        self._ends = float("-inf")  # of the newest slice
        self.calls = 0
        self.failures = 0

    def note(self, now: float, *, failed: bool) -> None:
        """One call that ended now."""
        if now >= self._ends:
            self.forget(now)
            self._slices.append([now, 0, 0])
            self._ends = now + self._span_s / SLICES
        newest = self._slices[-1]
        newest[1] += 1
        self.calls += 1
        if failed:
            newest[2] += 1
            self.failures += 1

    def forget(self, now: float) -> None:
        """Drop what is older than the window."""
        while self._slices and self._slices[0][0] + self._span_s <= now:
            _, calls, failures = self._slices.popleft()
            self.calls -= int(calls)
            self.failures -= int(failures)

    def rate(self, now: float) -> float:
        """The share of failures, 0 without calls."""
        self.forget(now)
        return self.failures / self.calls if self.calls else 0.0


class Probes:
    """Probes by number, from 1. `now` is on one steady clock."""

    def __init__(self) -> None:
        self._ends: dict[int, float] = {}  # the oldest first
        self._last = 0

    def begin(self, until: float) -> int:
        self._last += 1
        self._ends[self._last] = until
        return self._last

    def end(self, number: int, now: float) -> bool:
        """Whether the probe was still in flight."""
        ends = self._ends.pop(number, None)
        return ends is not None and ends > now

    def find_oldest(self, now: float) -> int | None:
        self._forget(now)
        return next(iter(self._ends), None)

    def free_at(self, now: float, limit: int) -> float:
        """When one more probe may begin; 0: at once."""
        self._forget(now)
        return 0.0 if len(self._ends) < limit else min(self._ends.values())

    def end_all(self) -> None:
        self._ends.clear()

    def _forget(self, now: float) -> None:
        for number in [number for number, ends in self._ends.items() if ends <= now]:
            del self._ends[number]
