"""One circuit breaker: `states` counts failures and changes the state; this file gives out permits
and records outcomes.

    acquire ── closed ──────────────────> the permit that all calls share
            ── half open ───────────────> a permit for one probe, while a probe is free, else None
            ── open, its time not over ─> None
    record_success | record_failure | release(permit) ──> counts, if the permit is still valid

pybreaker alone would let every caller through while half open, count a cancellation as a failure,
let an old probe's late success close a new opening, and use the wall clock. So no pybreaker call is
held around an await: it receives outcomes only.

For one event loop; no method waits.
"""

from __future__ import annotations

from collections.abc import Callable

from router.core.breakers.states import (
    CLOSED,
    HALF_OPEN,
    OPEN,
    BreakerRules,
    BreakerSnapshot,
    BreakerTransition,
    CallPermit,
    Probes,
    States,
    Window,
)
from router.core.clock import Clock, steady, wall

ORPHAN_PERMIT_S = 1.0  # for an outcome that is there already

OnTransition = Callable[[BreakerTransition], None]


class CircuitBreaker:
    """`now` is a steady clock; `today` is the wall clock, used for `opened_at_ms` only.

    `on_change` is called inside every change of state: it may read this breaker, but must not call
    a method that changes it.
    """

    def __init__(
        self,
        name: str,
        rules: BreakerRules = BreakerRules(),  # noqa: B008 - frozen
        *,
        now: Clock = steady,
        today: Clock = wall,
        on_change: OnTransition = lambda _: None,
    ) -> None:
        self.name = name
        self.rules = rules
        # the last state that pybreaker was set to; `phase` is what other rooms read
        self.state = CLOSED
        self._now = now
        self._today = today
        self._on_change = on_change
        self._generation = 0  # counts the changes of state
        self._shared_permit = CallPermit(0)
        # closed, and no failure is counted: then a success only enters the window
        self._has_no_failures = True
        self._probes = Probes()
        self._opened_at = 0.0  # on the steady clock, as the next one
        self._until = 0.0  # of an opening
        self._opened_at_ms: int | None = None
        # set while another instance's transition is applied: seconds left, opened at (ms)
        self._remote: tuple[float, int] | None = None
        self._window = Window(rules.error_rate_window_s)
        self._states = States(rules, self._on_state_change)

    def set_rules(self, rules: BreakerRules) -> None:
        """Use other rules from now on. The window starts empty; failures in a row and the end of an
        opening stay.
        """
        self.rules = rules
        self._window = Window(rules.error_rate_window_s)
        self._states.set_rules(rules)

    # -- calls -------------------------------------------------------------------------------------

    def acquire(self, permit_s: float) -> CallPermit | None:
        """A permit for one call; None: the caller must not call. A probe's permit expires after
        `permit_s` seconds.
        """
        if self.state == CLOSED:
            return self._shared_permit
        if self.block_end() > self._now():
            return None
        if self.state == OPEN:
            self._states.half_open()
        return CallPermit(self._generation, self._probes.begin(self._now() + permit_s))

    def permit_for_outcome(self, started_at: float) -> CallPermit | None:
        """A permit for an outcome that names none: the shared permit, else that of the oldest
        probe, else a new one.

        None for a call that started before the opening, and for every outcome while the breaker is
        open.
        """
        if self.state == CLOSED:
            return self._shared_permit
        if started_at < self._opened_at:
            return None
        oldest = self._probes.find_oldest(self._now())
        return (
            CallPermit(self._generation, oldest)
            if oldest is not None
            else self.acquire(ORPHAN_PERMIT_S)
        )

    def record_success(self, permit: CallPermit, latency_ms: float) -> None:
        """Count a success. One that took longer than the rules' latency counts as a failure."""
        slow = self.rules.latency_threshold_ms
        if slow is not None and latency_ms > slow:
            self.record_failure(permit)
        elif permit is self._shared_permit and self._has_no_failures:
            self._window.note(self._now(), failed=False)
        elif self._use_permit(permit):
            self._record(failed=False)

    def record_failure(self, permit: CallPermit) -> None:
        """Count a failure: the called service is at fault, or did not answer in time."""
        if self._use_permit(permit):
            self._record(failed=True)

    def release(self, permit: CallPermit) -> None:
        """Release the permit without counting: the call was cancelled, or the caller was at fault.
        A probe is free again.
        """
        self._use_permit(permit)

    # -- state -------------------------------------------------------------------------------------

    def block_end(self) -> float:
        """When the breaker will permit a call again, on the steady clock; a time in the past: it
        permits one now.
        """
        if self.state != HALF_OPEN:
            return self._until
        return self._probes.free_at(self._now(), self.rules.half_open_max_calls)

    @property
    def phase(self) -> str:
        """closed | open | half_open. An opening whose time is over is half open, also when no call has come since."""
        return HALF_OPEN if self.state == OPEN and self._until <= self._now() else self.state

    @property
    def snapshot(self) -> BreakerSnapshot:
        """State and figures of this moment."""
        return BreakerSnapshot(
            self.phase, self._opened_at_ms, self._states.failures, self._window.rate(self._now())
        )

    # -- transitions of other instances ------------------------------------------------------------

    def apply_remote_open(self, left_s: float, opened_at_ms: int) -> None:
        """Apply another instance's opening: open for `left_s` more seconds, at most for the rules'
        timeout.
        """
        self._remote = (min(left_s, self.rules.timeout_s), opened_at_ms)
        self._states.open()
        self._remote = None

    def apply_remote_close(self) -> None:
        if self.state != CLOSED:
            self._remote = (0.0, 0)
            self._states.close()
            self._remote = None

    # -- inside ------------------------------------------------------------------------------------

    def _use_permit(self, permit: CallPermit) -> bool:
        """Whether the permit is still valid; a probe's permit is used up by this."""
        if permit.probe == 0 or permit.generation != self._generation:
            return permit.generation == self._generation
        return self._probes.end(permit.probe, self._now())

    def _record(self, *, failed: bool) -> None:
        if self.state == CLOSED:
            self._window.note(self._now(), failed=failed)
        # else pybreaker would set a counter from 0 to 0, at 9 µs
        if failed or self.state != CLOSED or self._states.failures:
            self._states.record(failed=failed)
        if self.state == CLOSED and self._window.failures:
            self._check_error_rate()
        self._has_no_failures = self.state == CLOSED and not (
            self._states.failures or self._window.failures
        )

    def _check_error_rate(self) -> None:
        rules, rate = self.rules, self._window.rate(self._now())
        if self._window.calls >= rules.minimum_calls and 0 < rate >= rules.error_rate_threshold:
            self._states.open()

    def _on_state_change(self, state: str) -> None:
        """pybreaker calls this while it changes its state. Every earlier permit becomes invalid."""
        was, self.state, self._has_no_failures = self.state, state, False
        self._generation += 1
        self._shared_permit = CallPermit(self._generation)
        self._probes.end_all()
        if state == OPEN:
            left_s, self._opened_at_ms = self._remote or (
                self.rules.timeout_s,
                round(self._today() * 1000),
            )
            self._opened_at = self._now()
            self._until = self._opened_at + left_s
        elif state == CLOSED:
            self._until, self._opened_at_ms, self._window = (
                0.0,
                None,
                Window(self.rules.error_rate_window_s),
            )
        if was != state:
            self._on_change(self._transition(was))

    def _transition(self, was: str) -> BreakerTransition:
        left_s = self._until - self._now() if self.state == OPEN else 0.0
        return BreakerTransition(
            self.name, was, self.state, self._opened_at_ms, left_s, self._remote is not None
        )
