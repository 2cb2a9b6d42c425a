"""A worker of xdist that dies fails one test, and the run ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.measure import REPOSITORY

PLUGIN = """
from tests.support.distribution import UnitScheduling

def pytest_xdist_make_scheduler(config, log):
    return UnitScheduling(config, log)
"""
OPTIONS = ("-q", "-p", "xdist", "-p", "no:cacheprovider", "--dist", "loadgroup")
PASSES = "def test_passes(): pass\n"
DIES = "import os\ndef test_before(): pass\ndef test_dies(): os._exit(1)\ndef test_after(): pass\n"


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
