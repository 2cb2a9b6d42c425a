"""Every numbered line of SOLVER-Ralph, MeshForge, SDS-047 and the lake is on the page of
requirements, and named by a test.
"""

import re
from pathlib import Path

import pytest

from tests.coverage_of_lines import TESTS, lines, main, missing, named

PAGE = TESTS.parent / "docs" / "reference" / "requirements.md"


@pytest.mark.parametrize(
    ("specification", "count"), [("SR", 36), ("MF", 12), ("SD", 36), ("UL", 41)]
)
def test_every_line_of_the_specifications_is_named_by_a_test(
    specification: str, count: int
) -> None:
    """T23: `python -m tests.coverage_of_lines --list` prints which."""
    assert len(lines()[specification]) == count
    assert missing(specification) == []


@pytest.mark.parametrize("specification", lines())
def test_the_page_numbers_the_lines_without_a_gap(specification: str) -> None:
    numbered = re.findall(rf"^\| .*</a>({specification}-\d+) \| \S", PAGE.read_text(), re.MULTILINE)
    assert numbered == lines()[specification]


def test_a_line_counts_only_where_a_tests_own_docstring_names_it(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        '"""SR-1"""\n# SR-2\n\n\ndef helper():\n    """SR-3"""\n\n\ndef test_one():\n'
        '    """SR-4, SR-6 to SR-8, ISR-9."""\n    "SR-5"\n'
    )
    assert sorted(named(tmp_path)) == ["SR-4", "SR-6", "SR-7", "SR-8"]


def test_the_script_counts_and_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["SR"]), main(["XX"])) == (0, 2)
    assert capsys.readouterr().out == "SR: 36/36\n"
