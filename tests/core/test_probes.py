"""Who is out, and until when."""

from router.core.breakers.states import Probes


def test_the_next_place_is_free_when_the_first_of_those_that_are_out_ends() -> None:
    probes = Probes()
    probes.begin(until=9.0)
    assert probes.free_at(0.0, limit=2) == 0
    probes.begin(until=5.0)
    assert probes.free_at(0.0, limit=2) == 5.0


def test_one_that_ended_by_itself_leaves_one_place_and_not_every_place() -> None:
    probes = Probes()
    probes.begin(until=5.0)
    assert probes.free_at(5.0, limit=1) == 0
    probes.begin(until=10.0)
    assert probes.free_at(5.0, limit=1) == 10.0


def test_one_is_ended_once_and_not_after_its_time() -> None:
    probes = Probes()
    first, second = probes.begin(until=5.0), probes.begin(until=5.0)
    assert [probes.end(first, 4.9), probes.end(first, 4.9), probes.end(second, 5.0)] == [
        True,
        False,
        False,
    ]
