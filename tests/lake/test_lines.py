"""Every line of LINES.md is named by a test."""

import re
from pathlib import Path

from tests.coverage_of_lines import lines, missing

PAGE = Path(__file__).with_name("LINES.md")


def test_the_page_numbers_its_lines_without_a_gap() -> None:
    assert re.findall(r"^\* \*\*(UL-\d+)\*\* \S", PAGE.read_text(), re.MULTILINE) == lines()["UL"]


def test_every_line_is_named_by_a_test() -> None:
    """`python -m tests.coverage_of_lines UL --list` prints which."""
    assert missing("UL") == []
