"""`make test CHANGED=1` runs what a change can break, and not much else."""

import subprocess
from pathlib import Path

import pytest

from tests.support.changed import Sources, find_imports, find_tests, list_changed, read_sources

SOURCES = Sources(
    uses={
        "router/cut/__init__.py": set(),
        "router/cut/edge.py": set(),
        "router/cut/blade.py": {"router/cut/edge.py"},
        "tests/cut/conftest.py": set(),
        "tests/cut/test_blade.py": {"router/cut/blade.py", "tests/cut/conftest.py"},
        "tests/cut/test_page.py": {"tests/cut/conftest.py"},
    },
    strings={"tests/cut/test_page.py": {"docs", "blade.toml"}},
)
BLADE, PAGE = "tests/cut/test_blade.py", "tests/cut/test_page.py"


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("router/cut/edge.py", [BLADE]),
        ("router/cut/__init__.py", [BLADE]),
        ("router/cut/pictures/edge.svg", [BLADE]),
        ("tests/cut/conftest.py", [BLADE, PAGE]),
        ("docs/pictures/cut.svg", [PAGE]),
        ("deploy/blade.toml", [PAGE]),
        ("LICENSE", []),
        ("pyproject.toml", ["tests"]),
    ],
)
def test_a_change_leads_to_the_tests_that_use_the_file_by_any_way(
    changed: str, tests: list[str]
) -> None:
    assert find_tests({changed}, SOURCES) == tests


def test_imports_within_functions_count() -> None:
    assert set(find_imports("import a\ndef f():\n    from b import c\n")) == {"a", "b", "b.c"}


def test_what_a_branch_changed_is_what_differs_from_where_it_left_and_what_git_does_not_know(
    tmp_path: Path,
) -> None:
    git = ["git", "-c", "user.name=n", "-c", "user.email=n@example.com"]
    (tmp_path / "kept").write_text("1")
    (tmp_path / "edited").write_text("1")
    for words in (
        ["init", "-b", "main"],
        ["add", "."],
        ["commit", "-m", "1"],
        ["switch", "-c", "b"],
    ):
        subprocess.run([*git, *words], cwd=tmp_path, capture_output=True, check=True)
    (tmp_path / "edited").write_text("2")
    (tmp_path / "new").write_text("2")
    assert list_changed("main", tmp_path) == {"edited", "new"}


def test_in_this_repository_a_change_of_delivery_reaches_its_tests_and_none_of_pure_rules() -> None:
    tests = find_tests({"router/delivery/wire/frames.py"}, read_sources())
    assert {"tests/delivery/test_frame_parser.py", "tests/stories/test_results.py"} <= {*tests}
    assert "tests/policies/test_draw.py" not in tests
