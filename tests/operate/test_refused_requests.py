"""A request that every listener refuses is counted by one instance."""

from hashlib import blake2b
from itertools import pairwise

import pytest

from router.operate.violations.violations import REFUSED, SETTLE_S, RefusedRequests
from router.operate.violations.windows import BrokenContract
from tests.operate.test_violations import a_broken_contract
from tests.support.app import ManualClock
from tests.support.delivery import FakeConnection


class Listeners:
    """Listeners of several instances that tell one another what they refuse."""

    def __init__(self, *names: str) -> None:
        self.clock = ManualClock()
        self.counted: list[tuple[str, BrokenContract]] = []
        self.lost = 0
        self.instances = {name: self._make(name) for name in names}

    def _make(self, name: str) -> RefusedRequests:
        return RefusedRequests(
            name, lambda broken: self.counted.append((name, broken)), self._lose, self.clock
        )

    def _lose(self, count: int) -> None:
        self.lost += count

    def tell(self, *names: str) -> None:
        for name in names or self.instances:
            connection = FakeConnection()
            self.instances[name]._tell(connection)  # type: ignore[arg-type]
            for data in connection.posted(REFUSED):
                for other in self.instances.values():
                    other.on_told(data)

    def settle(self) -> None:
        self.clock.now += SETTLE_S
        for instance in self.instances.values():
            instance.count_due()


def test_all_hear_it_and_one_counts_it_in_any_order() -> None:
    for order in (("a", "b", "c"), ("c", "b", "a")):
        listeners = Listeners("a", "b", "c")
        for number in range(20):
            for name in order:
                listeners.instances[name].add(f"_INBOX.{number}", b"same", a_broken_contract())
                if number % 2:
                    listeners.tell(name)
        listeners.tell()
        listeners.settle()
        assert [name for name, _ in listeners.counted] == 20 * ["a"]


def test_one_that_a_single_instance_heard_is_counted_there() -> None:
    listeners = Listeners("a", "b")
    listeners.instances["b"].add("_INBOX.1", b"x", a_broken_contract())
    listeners.tell()
    listeners.settle()
    assert [name for name, _ in listeners.counted] == ["b"]


def test_the_same_request_twice_to_one_inbox_counts_twice() -> None:
    listeners = Listeners("a", "b")
    for _ in range(2):
        for instance in listeners.instances.values():
            instance.add("_INBOX.1", b"x", a_broken_contract())
    listeners.tell()
    listeners.settle()
    assert [name for name, _ in listeners.counted] == ["a", "a"]


def test_what_other_instances_tell_takes_bounded_memory() -> None:
    listeners = Listeners("b")
    for first, second in pairwise(range(0, 30_000, 1_000)):
        listeners.instances["b"].on_told(
            "\n".join(("a", *(f"{number:016x}" for number in range(first, second)))).encode()
        )
    assert len(listeners.instances["b"]._told_by_others) <= 10_000
    listeners.settle()
    assert len(listeners.instances["b"]._told_by_others) == 0
    listeners.instances["b"].on_told(b"\xff\xfe\nnonsense\n")
    assert len(listeners.instances["b"]._told_by_others) == 0


def test_more_refused_requests_than_are_kept_are_lost_and_counted() -> None:
    listeners = Listeners("a")
    for number in range(10_003):
        listeners.instances["a"].add(f"_INBOX.{number}", b"", a_broken_contract())
    assert listeners.lost == 3


def test_the_same_request_many_times_costs_as_much_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each was compared with all that were pending: a burst kept the event loop busy for seconds."""
    made: list[int] = []

    def digest(data: bytes, **options: int) -> object:
        made.append(len(data))
        return blake2b(data, **options)

    monkeypatch.setattr("router.operate.violations.violations.blake2b", digest)
    listeners = Listeners("a", "b")
    for _ in range(300):
        for instance in listeners.instances.values():
            instance.add("_INBOX.1", b"x", a_broken_contract())
    assert len(made) <= 2 * 600
    listeners.tell()
    listeners.settle()
    assert [name for name, _ in listeners.counted] == 300 * ["a"]
    assert not listeners.instances["a"]._numbers
