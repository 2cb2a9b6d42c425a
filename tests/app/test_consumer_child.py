"""Consumers that stop one after the other share the drain's deadlines."""

from router.app.consumer_child import DrainDeadline
from router.config.service import DrainConfig
from tests.support.app import Hand


def an_ending(clock: Hand) -> DrainDeadline:
    return DrainDeadline(DrainConfig(soft_deadline_ms=10_000, hard_deadline_ms=15_000), clock)


def test_the_second_lane_has_what_the_first_one_left() -> None:
    clock = Hand()
    drain_deadline = an_ending(clock)
    assert (drain_deadline.soft, drain_deadline.hard) == (10.0, 15.0)
    clock.now += 12
    assert (drain_deadline.soft, drain_deadline.hard) == (0.0, 3.0)


def test_a_restart_was_no_end() -> None:
    clock = Hand()
    drain_deadline = an_ending(clock)
    assert drain_deadline.soft == 10.0
    clock.now += 12
    drain_deadline.reset()
    assert drain_deadline.soft == 10.0
