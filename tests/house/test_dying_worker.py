"""A worker of xdist that dies fails one test, and the run ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.measure import REPOSITORY

PLUGIN = """
import os
from pathlib import Path
from tests.support.distribution import UnitScheduling

def pytest_xdist_make_scheduler(config, log):
    return UnitScheduling(config, log)

def pytest_runtest_logreport(report):
    if "PYTEST_XDIST_WORKER" not in os.environ and "test_before" in report.nodeid and report.when == "teardown":
        Path("heard").touch()
"""
OPTIONS = ("-q", "-p", "xdist", "-p", "no:cacheprovider", "--dist", "loadgroup")
PASSES = "def test_passes(): pass\n"
# It dies when all that passed before it has been heard of: xdist blames the first test without a
# report.
DIES = """
import os, pathlib, time

def test_before(): pass

def test_dies():
    while not pathlib.Path("heard").exists():
        time.sleep(0.01)
    os._exit(1)

def test_after(): pass
"""


@pytest.mark.parametrize(("dying", "workers"), [(0, 2), (3, 1), (7, 2)])
def test_one_test_fails_and_all_others_run(tmp_path: Path, dying: int, workers: int) -> None:
    (tmp_path / "conftest.py").write_text(PLUGIN)
    for number in range(8):
        (tmp_path / f"test_{number}.py").write_text(DIES if number == dying else PASSES)
    command = [sys.executable, "-m", "pytest", *OPTIONS, "-n", str(workers), "."]
    # what it does not need takes seconds
    environ = {"PYTHONPATH": str(REPOSITORY), "PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=170, check=False
    )
    assert f"crashed while running 'test_{dying}.py::test_dies'" in ended.stdout
    assert "1 failed, 9 passed" in ended.stdout
