"""Signs of life of idle instances: every instance knows of another one, and many cost hardly more
messages than two.
"""

import pytest

from router.delivery.replies.identical import (
    ALONE_AFTER_SILENCE_S,
    ANNOUNCE_EVERY_S,
    MIN_ANNOUNCING,
    IdenticalRequests,
)

TICK_S = 0.25


class IdleFleet:
    """Instances that hear one another at once, and hear no request."""

    def __init__(self, count: int) -> None:
        self.sent: list[float] = []
        self.now = 0.0
        self.instances = [self._instance(at) for at in range(count)]

    def _instance(self, at: int) -> IdenticalRequests:
        def tell(_: list[str]) -> None:
            self.sent.append(self.now)
            for place, other in enumerate(self.instances):
                if place != at:
                    other.meet_other(str(at), self.now)

        return IdenticalRequests(tell)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += TICK_S
            for instance in self.instances:
                instance.announce(self.now)


@pytest.mark.parametrize("count", [2, 3, 50])
def test_every_instance_knows_of_another_one_all_the_time(count: int) -> None:
    fleet = IdleFleet(count)
    fleet.pass_time(5.0)
    for _ in range(200):
        fleet.pass_time(1.0)
        assert not any(instance.is_alone(fleet.now) for instance in fleet.instances)


def test_fifty_idle_instances_send_as_much_as_a_few() -> None:
    fleet = IdleFleet(50)
    fleet.pass_time(10.0)
    fleet.sent.clear()
    fleet.pass_time(100.0)
    rounds = 100.0 / (0.75 * ANNOUNCE_EVERY_S)
    assert len(fleet.sent) <= 2 * MIN_ANNOUNCING * rounds


def test_one_whose_neighbours_are_gone_finds_that_it_is_alone() -> None:
    fleet = IdleFleet(3)
    fleet.pass_time(10.0)
    last = fleet.instances[0]
    fleet.instances = [last]
    fleet.pass_time(ALONE_AFTER_SILENCE_S)
    assert last.is_alone(fleet.now)
