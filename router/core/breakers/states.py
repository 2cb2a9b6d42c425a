"""pybreaker's three states, driven by outcomes that are known already.

pybreaker's `CircuitBreaker.call` gets a function that returns or raises at once, and is never
called while open: `breaker` sets half open, by a steady clock. Only pybreaker's counts, thresholds
and transitions are used.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from pybreaker import (
    STATE_CLOSED,
    STATE_HALF_OPEN,
    STATE_OPEN,
    CircuitBreaker,
    CircuitBreakerListener,
    CircuitBreakerState,
)

from router.core.breakers.values import CLOSED, HALF_OPEN, OPEN, BreakerRules

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
