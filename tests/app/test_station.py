"""Lanes that stop one after the other share the drain's deadlines."""

from router.app.station import Ending
from router.config.service import DrainConfig
from tests.support.app import Hand


def an_ending(clock: Hand) -> Ending:
    return Ending(DrainConfig(soft_deadline_ms=10_000, hard_deadline_ms=15_000), clock)


def test_the_second_lane_has_what_the_first_one_left() -> None:
    clock = Hand()
    ending = an_ending(clock)
    assert (ending.soft, ending.hard) == (10.0, 15.0)
    clock.now += 12
    assert (ending.soft, ending.hard) == (0.0, 3.0)


def test_a_restart_was_no_end() -> None:
    clock = Hand()
    ending = an_ending(clock)
    assert ending.soft == 10.0
    clock.now += 12
    ending.is_off()
    assert ending.soft == 10.0
