"""A known mutant is killed and a known one survives, in a small tree with tests of its own."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.mutants.changes import Change, find_changes
from tests.rigs.mutants.report import share_alive, summarise, tell, write_page
from tests.rigs.mutants.trees import Process, Tree
from tests.rigs.mutants.trial import Bench, Finding, Verdict

LIMIT_S = 150
FILE = "router/sums.py"
TESTS = ["tests/sums/test_sums.py"]
SUMS = """\
MOST = 10

def is_large(number):
    return number > MOST

def take(number):
    left = [number]
    left.clear()
    return left
"""
TESTED = """\
import subprocess
import sys
from router.sums import is_large

def test_that_fails_without_a_mutant():
    assert False

def test_large():
    assert is_large(11)
    assert not is_large(9)

def test_a_program_takes_all():
    program = "from router.sums import take; print(take(3))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    assert said == "[]\\n"
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    top = tmp_path_factory.mktemp("top")
    plugin = top / "router" / "sdk" / "testing" / "plugin.py"
    rig = top / "tests" / "rigs" / "mutants"
    plugin.parent.mkdir(parents=True)
    (top / "tests" / "sums").mkdir(parents=True)
    # The installed package names it to pytest.
    plugin.write_text("")
    (top / "router" / "__init__.py").write_text("")
    (top / "tests" / "__init__.py").write_text("")
    (top / "tests" / "conftest.py").write_text("LONGEST_S = 20\n")
    (top / FILE).write_text(SUMS)
    (top / TESTS[0]).write_text(TESTED)
    shutil.copytree(Path(__file__).parent, rig)
    tree = Tree(top, top.parent / "copy")
    log = top.parent / "log"
    with Process(tree, TESTS, log) as warm, Process(tree, (), log) as cold:
        yield Bench(tree, warm, cold, LIMIT_S)
    assert (tree.place / FILE).read_text() == SUMS


def find(after: str) -> Change:
    return next(change for change in find_changes(SUMS, FILE) if change.after == after)


@pytest.mark.parametrize(
    ("after", "test"),
    [
        ("return number <= MOST", "test_large"),
        # computed at the import
        ("MOST = 11", "test_large"),
        # seen by a program that a test starts
        ("pass", "test_a_program_takes_all"),
    ],
)
def test_a_mutant_that_a_test_notices_is_killed_by_that_test(
    bench: Bench, after: str, test: str
) -> None:
    finding = bench.try_change(find(after), TESTS)
    assert (finding.verdict, finding.by) == (Verdict.KILLED, f"{TESTS[0]}::{test}")


@pytest.mark.parametrize("after", ["return number >= MOST", "MOST = 9"])
def test_a_mutant_that_no_test_notices_survives_though_a_test_fails_without_it(
    bench: Bench, after: str
) -> None:
    finding = bench.try_change(find(after), TESTS)
    assert (finding.verdict, finding.ran, finding.files) == (Verdict.SURVIVED, 2, TESTS)


def test_without_a_test_file_there_is_no_test(bench: Bench) -> None:
    assert bench.try_change(find("MOST = 9"), []).verdict is Verdict.NO_TEST


def test_the_share_leaves_out_what_is_judged_and_the_page_lists_what_lives() -> None:
    change = find("return number >= MOST")
    findings = [
        Finding(change=change, verdict=Verdict.KILLED, by="test_large"),
        Finding(change=change, verdict=Verdict.SURVIVED, ran=2, files=TESTS),
        Finding(change=change, verdict=Verdict.NO_TEST),
        Finding(change=change, verdict=Verdict.HANGS),
        Finding(change=change, verdict=Verdict.JUDGED, reason="never 10"),
        Finding(change=change, verdict=Verdict.UNCLEAR),
    ]
    assert share_alive(findings) == 0.5
    assert "1 killed, 1 hangs, 1 survived, 1 judged" in summarise(findings)
    told = "router/sums.py:4 is_large: return number > MOST  ->  return number >= MOST"
    assert told in tell(findings[1])
    page = write_page(findings, {"seed": "1"})
    assert "| sums.py | 6 | 1 | 1 | 1 | 1 | 1 | 1 |" in page
    assert "`return number > MOST` → `return number >= MOST`: never 10" in page
    assert findings[1].as_json()["files"] == TESTS
