"""A copy of the tree, in which one mutant at a time stands, and the processes that run tests there."""

import ast
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.rigs.mutants.changes import Change, apply

COPIED = ("router", "tests")


class Tree:
    """The copy below `place`; what is neither code nor tests is only linked to."""

    def __init__(self, top: Path, place: Path) -> None:
        self.place = place
        self._writes = 0
        place.mkdir()
        for entry in top.iterdir():
            if entry.name in COPIED:
                shutil.copytree(entry, place / entry.name)
            elif entry.name != ".git":
                (place / entry.name).symlink_to(entry)

    @contextlib.contextmanager
    def hold(self, change: Change) -> Iterator[Mapping[str, str]]:
        """The mutant's file is written; afterwards it is what it was."""
        file = self.place / change.file
        text, stat = file.read_text(), file.stat()
        changed = ast.unparse(apply(text, change))
        # Python takes a compiled file for that of a source by time and size: no two have both.
        self._writes += 1
        written = stat.st_mtime + self._writes
        file.write_text(changed)
        os.utime(file, (written, written))
        try:
            yield {"file": str(file), "text": text, "changed": changed}
        finally:
            file.write_text(text)
            os.utime(file, (stat.st_mtime, stat.st_mtime))


class Process:
    """A process of `forked` in a tree."""

    def __init__(self, tree: Tree, files: Sequence[str], log: Path) -> None:
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tests.rigs.mutants.forked", *files],
                cwd=tree.place,
                env={**os.environ, "PYTHONPATH": str(tree.place)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                start_new_session=True,
            )

    def run(
        self,
        tests: Sequence[str],
        limit: float,
        mutant: Mapping[str, str] | None = None,
        left_out: Sequence[str] = (),
    ) -> dict[str, Any]:
        order = {"tests": tests, "limit": limit, "mutant": mutant, "left_out": left_out}
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(order) + "\n")
        self._child.stdin.flush()
        return self._read_answer()

    def wait_until_ready(self) -> None:
        """Only then may a mutant be written: what is imported meanwhile stays."""
        self._read_answer()

    def _read_answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError("the process that runs the tests has ended; see its log")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.send_signal(signal.SIGTERM)
        self._child.wait()
