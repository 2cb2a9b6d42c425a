"""`make` finds a Python that fits, says what is missing where there is none, and does not keep an
environment of a wrong one.

The Pythons here are shell scripts that answer what make asks of one, so none has to be installed.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "rm", "cp", "mkdir", "touch", "make")
PYTHON = """#!/bin/sh
case "$1 $2" in
  "-c "*version_info*) {answer} ;;
  "-c "*) echo "found: $0 is {version}" ;;
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/router" ;;
  "demo ") echo "the demo, by {version}" ;;
esac
"""


class Clone:
    """A fresh clone, on a machine with these Pythons alone."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = home / "bin"
        self.path.mkdir()
        for tool in TOOLS:
            (self.path / tool).symlink_to(str(shutil.which(tool)))
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, home)

    def has(self, name: str, version: str) -> str:
        """A Python of this version, by this name; `-c` of a wrong one fails, as a shim of pyenv
        does.
        """
        fits = version >= "3.11"
        answer = f"echo {version}" if fits else "exit 1"
        python = self.path / name
        python.write_text(PYTHON.format(answer=answer, version=version))
        python.chmod(0o755)
        return str(python)

    def make(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        environ = {"PATH": str(self.path), "HOME": str(self.home)}
        return subprocess.run(
            ["make", *arguments],
            cwd=self.home,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_the_newest_that_fits_is_taken_whatever_python3_is(clone: Clone) -> None:
    clone.has("python3", "3.10")
    clone.has("python3.11", "3.11")
    clone.has("python3.12", "3.12")
    made = clone.make("demo")
    assert made.returncode == 0, made.stderr
    assert "the demo, by 3.12" in made.stdout


def test_where_none_fits_it_says_what_is_needed_and_what_was_found(clone: Clone) -> None:
    clone.has("python3", "3.10")
    made = clone.make("demo")
    assert made.returncode != 0
    assert "Python 3.11 or newer is needed" in made.stderr
    assert "is 3.10" in made.stderr
    assert "make demo PYTHON=" in made.stderr
    assert not (clone.home / ".venv").exists()


@pytest.mark.parametrize("is_gone", [False, True])
def test_an_environment_of_a_wrong_python_is_made_anew(clone: Clone, is_gone: bool) -> None:
    wrong = clone.home / ".venv" / "bin" / "python"
    wrong.parent.mkdir(parents=True)
    (clone.home / ".venv" / ".demo").touch()  # and make believes that it is complete
    os.utime(clone.home / ".venv" / ".demo", (4e9, 4e9))
    wrong.symlink_to("/gone/python3") if is_gone else shutil.copy(
        clone.has("python3", "3.10"), wrong
    )
    clone.has("python3.13", "3.13")
    made = clone.make("demo")
    assert made.returncode == 0, made.stderr
    assert "it is made anew" in made.stdout
    assert "the demo, by 3.13" in made.stdout


def test_a_python_that_is_named_replaces_another_and_stays(clone: Clone) -> None:
    clone.has("python3.12", "3.12")
    other = clone.has("other", "3.11")
    assert "the demo, by 3.12" in clone.make("demo").stdout
    assert "the demo, by 3.11" in clone.make("demo", f"PYTHON={other}").stdout
    again = clone.make("demo")
    assert "the demo, by 3.11" in again.stdout
    assert "anew" not in again.stdout
