"""Who may call, and whose outcome is heard."""

import pytest

from router.core.breakers import HALF_OPEN, OPEN, BreakerRules
from tests.support.breakers import PERMIT_S, TimedBreaker


def test_failures_in_a_row_open_it() -> None:
    a = TimedBreaker()
    a.fail(4)
    assert a.state == "closed"
    a.fail()
    assert (a.state, a.changes) == ("open", ["closed>open"])


def test_a_success_between_breaks_the_row() -> None:
    a = TimedBreaker(failure_threshold=3)
    a.fail(2)
    a.succeed()
    a.fail(2)
    assert (a.state, a.breaker.snapshot.failure_count) == ("closed", 2)


def test_a_share_of_failures_opens_it_once_there_were_enough_calls() -> None:
    calm, a = TimedBreaker(), TimedBreaker()
    calm.fail(4)
    calm.succeed(6)
    assert (calm.state, calm.breaker.snapshot.error_rate) == ("closed", 0.4)
    for _ in range(4):
        a.fail()
        a.succeed()
    a.fail()
    assert a.state == "closed"
    a.succeed()
    assert (a.state, a.breaker.snapshot.error_rate) == ("open", 0.5)


def test_failures_older_than_the_window_do_not_count() -> None:
    a = TimedBreaker(minimum_calls=4)
    for _ in range(2):
        a.fail()
        a.succeed()
        if a.state == "open":
            break
        a.pass_time(60)
    assert a.state == "closed"


def test_a_success_above_the_latency_is_a_failure() -> None:
    a = TimedBreaker(failure_threshold=2, latency_threshold_ms=100)
    a.succeed(latency_ms=100)
    assert a.breaker.snapshot.failure_count == 0
    a.succeed(2, latency_ms=101)
    assert a.state == "open"


def test_while_open_no_call_is_let_through_and_the_opening_has_a_date() -> None:
    a = TimedBreaker().open()
    opened_at_ms = a.clock.today_ms
    a.pass_time(59.9)
    assert a.breaker.acquire(PERMIT_S) is None
    assert (a.breaker.snapshot.opened_at_ms, a.breaker.block_end()) == (opened_at_ms, 60)


def test_after_its_time_an_opening_is_half_open_before_a_call() -> None:
    a = TimedBreaker(timeout_s=60).open()
    a.pass_time(60)
    assert (a.state, a.breaker.state, a.changes) == (HALF_OPEN, OPEN, ["closed>open"])
    a.acquire()
    assert a.changes == ["closed>open", "open>half_open"]


def test_so_many_probes_at_once_and_no_more() -> None:
    a = TimedBreaker().half_open()
    permits = [a.breaker.acquire(PERMIT_S) for _ in range(100)]
    assert sum(permit is not None for permit in permits) == 3
    a.breaker.release(permits[0])  # type: ignore[arg-type]
    assert a.breaker.acquire(PERMIT_S) is not None


def test_a_probe_that_is_never_heard_of_frees_its_place_by_itself() -> None:
    a = TimedBreaker(half_open_max_calls=1).half_open()
    lost = a.acquire()
    assert a.breaker.block_end() == a.clock.at + PERMIT_S
    a.pass_time(PERMIT_S)
    assert a.breaker.acquire(PERMIT_S) is not None
    a.breaker.record_failure(lost)
    assert a.state == "half_open"


def test_enough_successful_probes_close_it() -> None:
    a = TimedBreaker().half_open()
    a.succeed()
    assert a.state == "half_open"
    a.succeed()
    assert (a.state, a.breaker.snapshot.opened_at_ms, a.changes[-1]) == (
        "closed",
        None,
        "half_open>closed",
    )
    assert a.breaker.snapshot.error_rate == 0


def test_a_failed_probe_opens_it_again_for_the_whole_time() -> None:
    a = TimedBreaker(success_threshold=2, timeout_s=60).half_open()
    a.succeed()
    a.fail()
    assert (a.state, a.breaker.block_end()) == ("open", a.clock.at + 60)
    a.pass_time(60)
    a.succeed()
    assert a.state == "half_open", "successes of the half-open phase before do not count"


def test_failures_of_before_the_opening_do_not_open_it_again_when_a_probe_succeeds() -> None:
    a = TimedBreaker(failure_threshold=10, minimum_calls=10, success_threshold=2, timeout_s=1)
    a.half_open().succeed()
    assert a.state == "half_open"


def test_an_old_probes_late_success_does_not_close_a_newer_opening() -> None:
    a = TimedBreaker(success_threshold=1, half_open_max_calls=2).half_open()
    late = a.breaker.acquire(1000)
    a.fail()
    a.breaker.record_success(late, 1.0)  # type: ignore[arg-type]
    assert a.state == "open"
    a.pass_time(60)
    a.breaker.record_success(late, 1.0)  # type: ignore[arg-type]
    assert a.state == "half_open"


def test_a_call_begun_before_the_opening_says_nothing_of_the_probes() -> None:
    a = TimedBreaker(success_threshold=1)
    early = a.acquire()
    a.half_open()
    a.acquire()
    a.breaker.record_failure(early)
    a.breaker.record_success(early, 1.0)
    assert a.state == "half_open"


def test_who_left_counts_as_neither() -> None:
    a = TimedBreaker(failure_threshold=1)
    a.breaker.release(a.acquire())
    assert (a.breaker.snapshot.failure_count, a.breaker.snapshot.error_rate, a.state) == (
        0,
        0,
        "closed",
    )


def test_an_outcome_counts_once() -> None:
    a = TimedBreaker(success_threshold=2).half_open()
    permit = a.acquire()
    for _ in range(2):
        a.breaker.record_success(permit, 1.0)
    assert a.state == "half_open"


def test_an_outcome_without_a_permit_ends_the_probe_that_is_out_longest() -> None:
    a = TimedBreaker(half_open_max_calls=2, success_threshold=5)
    a.open()
    assert a.breaker.permit_for_outcome(a.clock()) is None, "while open it was begun before"
    a.pass_time(60)
    first, second = a.acquire(), a.acquire()
    assert a.breaker.permit_for_outcome(a.clock()) == first
    a.breaker.record_success(first, 1.0)
    assert a.breaker.permit_for_outcome(a.clock()) == second


def test_an_outcome_without_a_permit_counts_also_where_no_probe_is_out() -> None:
    a = TimedBreaker(success_threshold=1).half_open()
    permit = a.breaker.permit_for_outcome(a.clock())
    assert permit is not None
    a.breaker.record_success(permit, 1.0)
    assert a.state == "closed"


def test_another_instances_opening_is_taken_over_for_the_time_that_is_left() -> None:
    a = TimedBreaker(timeout_s=60)
    a.breaker.apply_remote_open(20, 123)
    assert (a.state, a.breaker.snapshot.opened_at_ms, a.breaker.block_end()) == ("open", 123, 20)
    assert a.transitions[0].is_remote
    a.breaker.apply_remote_open(1000, 123)
    assert a.breaker.block_end() == 60, "never for longer than the rules say"
    a.breaker.apply_remote_close()
    assert (a.state, a.changes) == ("closed", ["closed>open", "open>closed"])


def test_other_rules_hold_from_now_on_and_an_opening_keeps_its_time() -> None:
    a = TimedBreaker(failure_threshold=5, timeout_s=60)
    a.fail(2)
    a.breaker.set_rules(BreakerRules(failure_threshold=3, timeout_s=1))
    a.fail()
    assert (a.state, a.breaker.block_end()) == ("open", 1)


@pytest.mark.parametrize("state", ["closed", "open"])
def test_a_change_tells_where_from_and_for_how_long(state: str) -> None:
    a = TimedBreaker(success_threshold=1, timeout_s=60)
    a.open() if state == "open" else a.half_open().succeed()
    last = a.transitions[-1]
    assert (last.name, last.state, last.left_s) == ("echo", state, 60 if state == "open" else 0)
