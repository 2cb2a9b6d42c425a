"""The cycle collector is calm while a router runs, and as it was afterwards."""

import gc

import pytest

from router.process.memory import YOUNG, calm_collector


def test_it_is_calm_within_and_as_before_afterwards() -> None:
    before = gc.get_threshold()
    within = []

    def fails() -> None:
        with calm_collector():
            within.append((gc.get_threshold()[0], gc.get_freeze_count() > 0))
            raise ValueError("ends")

    with pytest.raises(ValueError, match="ends"):
        fails()
    assert within == [(YOUNG, True)]
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_cycles_are_still_collected() -> None:
    with calm_collector():
        made = gc.get_stats()[0]["collections"]
        for _ in range(3 * YOUNG):
            ring: list[object] = []
            ring.append(ring)
        assert gc.get_stats()[0]["collections"] > made
