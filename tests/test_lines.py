"""Every numbered line of SOLVER-Ralph, MeshForge and SDS-047 is named by a test."""

from pathlib import Path

import pytest

from tests.coverage_of_lines import lines, main, missing, named


@pytest.mark.parametrize(("specification", "count"), [("SR", 36), ("MF", 12), ("SD", 36)])
def test_every_line_of_the_specifications_is_named_by_a_test(specification: str, count: int) -> None:
    """`python -m tests.coverage_of_lines SR MF SD --list` prints which."""
    assert len(lines()[specification]) == count
    assert missing(specification) == []


def test_a_line_counts_only_where_a_tests_own_docstring_names_it(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        '"""SR-1"""\n# SR-2\n\n\ndef helper():\n    """SR-3"""\n\n\ndef test_one():\n    """SR-4, SR-6 to SR-8, ISR-9."""\n    "SR-5"\n'
    )
    assert sorted(named(tmp_path)) == ["SR-4", "SR-6", "SR-7", "SR-8"]


def test_the_script_counts_and_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["SR"]), main(["XX"])) == (0, 2)
    assert capsys.readouterr().out == "SR: 36/36\n"
