"""What the page says of a course."""

from tests.strategies.course import Course, Part, find_p95
from tests.strategies.page import write_page


def test_the_page_has_a_row_for_each_part_and_says_what_differs() -> None:
    course = Course(
        "least_latency", [Part("a is slow", 60.2, 6000, [("share of a", "1.0%"), ("p95", "2")])], recorded=20_000, differences=0
    )
    page = write_page({"CPU": "two"}, 100, [course])
    assert "| a is slow | 60 | 6000 | share of a: 1.0%; p95: 2 |" in page
    assert "20000 recorded decisions computed again: 0 differ." in page


def test_a_p95_is_a_value_that_was_measured() -> None:
    assert find_p95([float(value) for value in range(1, 101)]) == 95
