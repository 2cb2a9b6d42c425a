"""The memory of what was metered lately."""

from router.work.model import RecentOutcomes, Repetition
from tests.support.usage import a_usage_event
from tests.support.workers import a_result

EVENT = a_usage_event()


def test_memory_is_bounded_and_keeps_the_younger_half() -> None:
    recent = RecentOutcomes(limit=10)
    for n in range(1000):
        recent.compare(f"usage:{n}", EVENT, a_result(sequence=n))
    assert len(recent) <= 10
    assert recent.compare("usage:996", EVENT, a_result(sequence=5000)) is Repetition.DUPLICATE
    assert recent.compare("usage:1", EVENT, a_result(sequence=5000)) is Repetition.FIRST


def test_what_was_told_longer_ago_is_told_for_the_first_time() -> None:
    now = 0.0
    recent = RecentOutcomes(keep_s=10.0, clock=lambda: now)
    recent.compare("usage:1", EVENT, a_result(sequence=1))
    now = 9.0
    assert recent.compare("usage:1", EVENT, a_result(sequence=2)) is Repetition.DUPLICATE
    now = 10.0
    assert recent.compare("usage:1", EVENT, a_result(sequence=3)) is Repetition.FIRST
