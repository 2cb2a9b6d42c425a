"""`make test` is short, and yet no promise is without a test in it (tests/lanes.toml)."""

import re

import pytest

from tests.coverage_of_lines import find_tests, lines, missing
from tests.house.measure import REPOSITORY
from tests.support import lanes
from tests.support.distribution import UNITS

CRASH_TESTS = REPOSITORY / "docs" / "explanation" / "crash-tests.md"
CRASH = re.compile(r"\bT\d+\b")


@pytest.mark.parametrize("specification", lines())
def test_every_line_of_the_specifications_has_a_test_in_the_short_lane(specification: str) -> None:
    """`python -m tests.coverage_of_lines --short --list` prints which."""
    assert missing(specification, in_short_lane=True) == []


def test_every_crash_test_has_a_short_version_in_the_short_lane() -> None:
    """In a test's docstring, or in the first sentence of a file all of whose tests are in it."""
    told = [test.docstring for test in find_tests(CRASH) if test.is_short]
    for file in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        if lanes.is_short(file.relative_to(REPOSITORY).as_posix()):
            told.append(file.read_text().partition("\n")[0])
    named = {name for text in told for name in CRASH.findall(text)}
    listed = re.findall(r'<a id="t\d+"></a>(T\d+)', CRASH_TESTS.read_text())
    assert sorted(set(listed) - named) == []


def test_the_short_lane_has_spark_and_a_browser_each_once() -> None:
    short = lanes.read_lanes()["short"]
    assert len([entry for entry in short if entry.startswith(UNITS["spark"])]) == 1
    assert (
        len([entry for entry in short if entry.startswith("tests/console/test_browser.py::")]) == 1
    )


def test_every_entry_of_the_table_is_a_folder_a_file_or_a_test_and_none_is_in_vain() -> None:
    for entry in (*lanes.read_lanes()["slow"], *lanes.read_lanes()["short"]):
        path, _, test = entry.partition("::")
        assert (REPOSITORY / path).is_dir() == path.endswith("/"), entry
        name = test.partition("[")[0]
        assert not test or f"def {name}(" in (REPOSITORY / path).read_text(), entry
    for entry in lanes.read_lanes()["short"]:
        assert lanes.find_longest(entry, lanes.read_lanes()["slow"]), (
            f"{entry} is in the short lane anyway"
        )


def test_the_longer_entry_decides_and_a_mark_yields_to_the_name_of_a_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = {"slow": ("a/", "a/x.py::test_long"), "short": ("a/x.py", "a/y.py::test_it[one")}
    monkeypatch.setattr(lanes, "read_lanes", lambda: table)
    asked = ("b/z.py::test_it", "a/z.py::test_it", "a/x.py::test_it", "a/x.py::test_long[1]")
    assert [lanes.is_short(address) for address in asked] == [True, False, True, False]
    assert [lanes.is_short(address, is_marked=True) for address in asked] == [False] * 4
    cases = ("a/y.py::test_it[one: 1]", "a/y.py::test_it[two]", "a/y.py::test_it_all")
    assert [lanes.is_short(address, is_marked=True) for address in cases] == [True, False, False]
    assert [lanes.has_short_tests(path) for path in ("a/", "a/x.py", "a/y.py", "a/z.py")] == [
        *(True, True, True, False)
    ]
