"""What the page says of a course."""

from tests.rigs.strategies.course import Course, Measure, Part, find_p95
from tests.rigs.strategies.page import write_page


def a_course(share: Measure, differences: int = 0) -> Course:
    return Course(
        "least_latency",
        [Part("a is slow", 60.2, 6000, [share, Measure("p95", "2")])],
        recorded=20_000,
        differences=differences,
    )


def test_the_page_has_a_row_for_each_part_and_says_what_differs() -> None:
    course = a_course(Measure("share of a", "1.0%", is_kept=True))
    page = write_page({"CPU": "two"}, 100, [course])
    assert "| a is slow | 60 | 6000 | share of a: 1.0%; p95: 2 |" in page
    assert "20000 recorded decisions computed again: 0 differ." in page
    assert course.is_kept
    assert not a_course(Measure("share of a", "1.0%", is_kept=True), differences=1).is_kept


def test_what_is_not_as_promised_is_bold() -> None:
    course = a_course(Measure("share of a", "9.0%", is_kept=False))
    assert "| share of a: **9.0%**; p95: 2 |" in write_page({}, 100, [course])
    assert not course.is_kept


def test_a_p95_is_a_value_that_was_measured() -> None:
    assert find_p95([float(value) for value in range(1, 101)]) == 95
