"""A name that an event brought: its length on a page, and what it may not do to a program."""

import pytest

from router.core.legible import MAX_NAME_LENGTH, escape_cell, shorten


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a" * 64, "a" * 64),
        ("a" * 65, "a" * 63 + "…"),
        ("a" * 63 + "\x1b", "a" * 63 + "…"),
        ("a\u202eb", "a\\u202eb"),
    ],
)
def test_a_name_is_legible_and_has_at_most_sixty_four_characters(text: str, shown: str) -> None:
    assert shorten(text) == shown
    assert len(shown) <= MAX_NAME_LENGTH


@pytest.mark.parametrize(
    ("text", "cell"),
    [("=1+1", "'=1+1"), (" ＠x", "' ＠x"), ("a=1", "a=1"), ("-\n", "'-\\n"), ("", "")],
)
def test_a_spreadsheet_takes_no_cell_for_a_formula(text: str, cell: str) -> None:
    assert escape_cell(text) == cell
