"""Any order of calls, outcomes, news and time: the breaker does what a small model of it does.

The model knows no window: its rules leave the error rate out.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from router.core.breakers import CallPermit
from tests.support.breakers import TimedBreaker

FAILURES, SUCCESSES, PROBES, TIMEOUT_S = 3, 2, 2, 60.0


class BreakerMachine(RuleBasedStateMachine):
    # with the model's era, and when it ends
    leases: Bundle[tuple[CallPermit, int, float]] = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.a = TimedBreaker(
            failure_threshold=FAILURES,
            success_threshold=SUCCESSES,
            half_open_max_calls=PROBES,
            timeout_s=TIMEOUT_S,
            minimum_calls=10**6,
        )
        self.state, self.era, self.row, self.wins, self.until = "closed", 0, 0, 0, 0.0
        self.out: list[tuple[CallPermit, float]] = []

    @property
    def now(self) -> float:
        return self.a.clock.at

    def turn(self, state: str) -> None:
        self.state, self.wins, self.out = state, 0, []
        self.era += 1
        if state == "open":
            self.until = self.now + TIMEOUT_S
        elif state == "closed":
            self.row = 0

    @rule(target=leases, permit_s=st.sampled_from([1.0, 5.0, 100.0]))
    def enter(self, permit_s: float) -> object:
        permit = self.a.breaker.acquire(permit_s)
        if self.state == "open" and self.now >= self.until:
            self.turn("half_open")
        self.out = [(one, ends) for one, ends in self.out if ends > self.now]
        may_enter = self.state == "closed" or (self.state == "half_open" and len(self.out) < PROBES)
        assert (permit is not None) == may_enter
        if permit is None:
            return multiple()
        ends = self.now + permit_s if self.state == "half_open" else float("inf")
        if self.state == "half_open":
            self.out.append((permit, ends))
        return permit, self.era, ends

    @rule(
        given=consumes(leases),
        what=st.sampled_from(["record_success", "record_failure", "release"]),
    )
    def end(self, given: tuple[CallPermit, int, float], what: str) -> None:
        permit, era, ends = given
        if what == "record_success":
            self.a.breaker.record_success(permit, 1.0)
        else:
            getattr(self.a.breaker, what)(permit)
        if era != self.era or ends <= self.now:
            return
        self.out = [(one, ends) for one, ends in self.out if one != permit]
        self.heard(what)

    def heard(self, what: str) -> None:
        if what == "record_failure":
            self.row += 1
            if self.state == "half_open" or self.row >= FAILURES:
                self.turn("open")
        elif what == "record_success":
            self.row = 0
            self.wins += self.state == "half_open"
            if self.wins >= SUCCESSES:
                self.turn("closed")

    @rule(seconds=st.sampled_from([0.5, 5.0, 59.9, 60.0]))
    def wait(self, seconds: float) -> None:
        self.a.pass_time(seconds)

    @rule(left_s=st.sampled_from([-1.0, 10.0, 1000.0]))
    def hear_of_an_opening(self, left_s: float) -> None:
        self.a.breaker.apply_remote_open(left_s, 1)
        self.turn("open")
        self.until = self.now + min(left_s, TIMEOUT_S)

    @rule()
    def hear_of_a_closing(self) -> None:
        self.a.breaker.apply_remote_close()
        if self.state != "closed":
            self.turn("closed")

    @invariant()
    def they_agree(self) -> None:
        due = self.state == "open" and self.now >= self.until
        assert self.a.state == ("half_open" if due else self.state)
        assert self.a.breaker.snapshot.failure_count == self.row
        assert (self.a.breaker.snapshot.opened_at_ms is None) == (self.state == "closed")


TestBreakerModel = BreakerMachine.TestCase
TestBreakerModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
