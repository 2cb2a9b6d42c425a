"""No word of a page is misspelt."""

from pathlib import Path

from tests.docs.pages import find_pages
from tests.docs.spelling import find_misspelt


def test_no_word_is_misspelt() -> None:
    assert find_misspelt(find_pages()) == []


def test_a_misspelt_word_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    wrong = "rec" + "ieve"
    page.write_text(f"To {wrong} a caf.\n")
    assert find_misspelt([page]) == [f"{page}:1: {wrong} ==> receive"]
