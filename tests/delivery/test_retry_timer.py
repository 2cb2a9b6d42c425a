"""Pauses between attempts: they grow up to a bound, and are short again after a success."""

from router.delivery.wire.reconnecting import RetryTimer


class StandingClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, timer: RetryTimer) -> float:
        """How long until the timer is due, to a hundredth; the clock stands there then."""
        start = self.now
        while not timer.is_due:
            self.now += 0.01
        return self.now - start


def test_the_first_attempt_is_due_at_once() -> None:
    assert RetryTimer(0.5, 4.0, StandingClock()).is_due


def test_pauses_double_up_to_the_bound_and_vary_by_a_half() -> None:
    clock = StandingClock()
    timer = RetryTimer(0.5, 4.0, clock)
    for longest in (0.5, 1.0, 2.0, 4.0, 4.0, 4.0):
        timer.delay()
        assert longest / 2 - 0.01 <= clock.pause(timer) <= longest + 0.02


def test_attempts_of_many_instances_do_not_fall_together() -> None:
    pauses = set()
    for _ in range(20):
        clock = StandingClock()
        timer = RetryTimer(2.0, 2.0, clock)
        timer.delay()
        pauses.add(round(clock.pause(timer), 2))
    assert len(pauses) > 5


def test_after_a_success_a_pause_is_short_again_also_the_one_under_way() -> None:
    clock = StandingClock()
    timer = RetryTimer(0.5, 8.0, clock)
    for _ in range(5):
        timer.delay()
        clock.pause(timer)
    timer.delay()
    timer.reset()
    assert clock.pause(timer) <= 0.52
