"""Every file that the page of threats names is there."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "threats.md"
LINKS = sorted(set(re.findall(r"\]\(([^)#]+)\)", PAGE.read_text())))


@pytest.mark.parametrize("link", LINKS)
def test_what_the_page_points_to_is_there(link: str) -> None:
    assert (PAGE.parent / link).resolve().is_file()


def test_every_line_of_the_entrances_says_what_stops_it_and_where_that_is_shown() -> None:
    _, _, table = PAGE.read_text().partition("## Entrances")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("| ")
    ]
    assert len(rows) > 20
    assert [row[0] for row in rows[1:] if len(row) != 5 or not row[2] or "](" not in row[3]] == []
