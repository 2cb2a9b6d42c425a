"""The code whose router is measured: ours, or that of another commit in a worktree of its own, gone
in the end.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from tests.rigs.neighbours.part import ROOT, Broken

ROUTER = ("router", "serve", "--embedded")


class Tree(Struct, frozen=True):
    """`commit`: short, with a star when files differ from it. `program`: the module that is run
    from here, and its arguments.
    """

    path: str
    commit: str
    program: tuple[str, ...] = ROUTER

    @property
    def environ(self) -> Mapping[str, str]:
        """For a process that is to import `router` from here."""
        return {**os.environ, "PYTHONPATH": self.path}


def find_own_tree() -> Tree:
    is_changed = bool(_git("status", "--porcelain", "--", "router"))
    return Tree(str(ROOT), _git("rev-parse", "--short", "HEAD") + ("*" if is_changed else ""))


def find_bare_program() -> Tree:
    """A bare program in the router's place: the same rows beside it show what the machine alone
    makes the quiet tenant wait.
    """
    return Tree(str(ROOT), "a bare program", ("tests.rigs.neighbours.bare",))


@contextlib.contextmanager
def check_out(revision: str) -> Iterator[Tree]:
    """A worktree of this commit. Broken when there is no such commit, or its package would not be
    the one that runs.
    """
    with tempfile.TemporaryDirectory(prefix="router-neighbours-") as home:
        place = str(Path(home) / "tree")
        _git("worktree", "add", "--detach", place, revision)
        try:
            tree = Tree(place, _git("rev-parse", "--short", revision))
            _check(tree)
            yield tree
        finally:
            _git("worktree", "remove", "--force", place)


def _check(tree: Tree) -> None:
    asked = [sys.executable, "-c", "import router; print(router.__file__)"]
    found = subprocess.run(
        asked, cwd=tree.path, env=tree.environ, capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_relative_to(tree.path):
        raise Broken(f"the control would run {found}")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Broken(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()
