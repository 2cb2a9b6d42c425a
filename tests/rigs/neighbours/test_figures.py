"""From records to figures, and when all is normal again."""

from tests.rigs.neighbours.figures import (
    Experience,
    Record,
    is_steady,
    is_within,
    normal_again_s,
    normal_limit_ms,
    percentile,
    seconds_after,
    summarize,
)
from tests.rigs.neighbours.quiet import LOST


def decided(due: float, ms: float = 2.0) -> Record:
    return Record(due, ms, "decided")


def a_feeling(p99_ms: float, lost: int = 0) -> Experience:
    return Experience(300, 1.0, p99_ms, lost, {})


def test_only_requests_that_were_due_in_the_span_count() -> None:
    found = summarize([decided(0.9), decided(1.0, 4.0), decided(1.9, 6.0), decided(2.0)], 1.0, 2.0)
    assert (found.asked, found.p50_ms, found.p99_ms, found.lost) == (2, 6.0, 6.0, 0)


def test_an_unanswered_request_took_as_long_as_its_patience_and_is_lost() -> None:
    found = summarize([decided(0.0), Record(0.1, None, LOST)], 0.0, 1.0)
    assert (found.p99_ms, found.unanswered, found.lost) == (5000.0, 1, 1)


def test_an_error_is_an_answer_and_lost_all_the_same() -> None:
    found = summarize(
        [decided(0.0), Record(0.1, 3.0, "overloaded"), Record(0.2, 3.0, "overloaded")], 0.0, 1.0
    )
    assert (found.unanswered, found.refused, found.lost) == (0, {"overloaded": 2}, 2)


def test_of_nothing_there_is_no_latency() -> None:
    assert percentile([], 0.99) == 0.0


def test_normal_again_is_the_first_second_after_the_last_bad_one() -> None:
    records = [decided(10.5), decided(11.5, 90.0), decided(12.5), decided(13.5)]
    normal = seconds_after(records, 10.0, 14.0, 20.0)
    assert normal == [True, False, True, True]
    assert normal_again_s(normal) == 2.0


def test_a_second_without_a_request_or_with_a_lost_one_is_not_normal() -> None:
    assert seconds_after([decided(10.5), Record(11.5, None, LOST)], 10.0, 13.0, 20.0) == [
        True,
        False,
        False,
    ]
    assert normal_again_s([True, False]) is None
    assert normal_again_s([]) is None


def test_looking_ends_after_five_normal_seconds_in_a_row() -> None:
    assert not is_steady([False, True, True, True, True])
    assert is_steady([False, True, True, True, True, True])


def test_normal_is_twice_as_long_as_alone_or_twenty_milliseconds() -> None:
    assert normal_limit_ms(a_feeling(3.0)) == 20.0
    assert normal_limit_ms(a_feeling(30.0)) == 60.0


def test_the_promise_is_one_and_a_half_times_alone_above_the_floor_and_nothing_lost() -> None:
    assert is_within(a_feeling(2.0), a_feeling(9.9))  # the scheduler's
    assert is_within(a_feeling(20.0), a_feeling(29.0))
    assert not is_within(a_feeling(20.0), a_feeling(31.0))
    assert not is_within(a_feeling(2.0), a_feeling(2.0, lost=1))
