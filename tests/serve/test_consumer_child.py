"""Consumers that drain one after the other share the deadlines."""

from router.delivery.settings import DrainConfig
from router.serve.consumer_child import DrainDeadline
from tests.support.app import ManualClock


def a_deadline(clock: ManualClock) -> DrainDeadline:
    return DrainDeadline(DrainConfig(soft_deadline_ms=10_000, hard_deadline_ms=15_000), clock)


def test_the_second_consumer_has_the_rest_of_the_time() -> None:
    clock = ManualClock()
    drain_deadline = a_deadline(clock)
    assert (drain_deadline.soft, drain_deadline.hard) == (10.0, 15.0)
    clock.now += 12
    assert (drain_deadline.soft, drain_deadline.hard) == (0.0, 3.0)


def test_a_restart_resets_the_deadline() -> None:
    clock = ManualClock()
    drain_deadline = a_deadline(clock)
    assert drain_deadline.soft == 10.0
    clock.now += 12
    drain_deadline.reset()
    assert drain_deadline.soft == 10.0
