"""The log of commits, read and continued.

A commit takes the number after the last one. Whoever read the log earlier and lost the race gets Conflict, reads it again
and decides again: two writers cannot both have built on the same state.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import PurePosixPath

from router.lake.warehouse.commit import Commit, File, Seal, commit_bytes, read_commit
from router.lake.warehouse.storage import Storage

LOG = "_commits"


class Warehouse:
    """One warehouse, at a directory or a URI. Commits are read once: they never change."""

    def __init__(self, location: str) -> None:
        self.location = location  # as another process is told where it is
        self.storage = Storage(location)
        self._known: list[Commit] = []

    def commits(self, as_of_commit: int | None = None) -> list[Commit]:
        """All of them, oldest first; or those up to and with one."""
        self._refresh()
        return self._known[:as_of_commit]

    def head(self) -> int:
        """The number of the last commit; 0 before the first."""
        return len(self.commits())

    def files(self, table: str, as_of_commit: int | None = None) -> list[File]:
        """The files that are this table, now or as of a commit, in the order they came."""
        present: dict[str, File] = {}
        for commit in self.commits(as_of_commit):
            for path in commit.remove.get(table, ()):
                present.pop(path, None)
            present.update((file.path, file) for file in commit.add.get(table, ()))
        return list(present.values())

    def paths(self, table: str, as_of_commit: int | None = None) -> list[str]:
        """Of those files, what Spark, DuckDB or Trino open."""
        return [self.storage.uri(file.path) for file in self.files(table, as_of_commit)]

    def seals(self, as_of_commit: int | None = None) -> list[Seal]:
        return [commit.seals for commit in self.commits(as_of_commit) if commit.seals is not None]

    def ingested(self) -> Commit | None:
        """The last ingest that read messages: its `last` is how far the stream is in."""
        return next((one for one in reversed(self.commits()) if one.kind == "ingest" and one.last is not None), None)

    def append(self, make: Callable[[int, str], Commit], *, after: int) -> Commit:
        """Write the commit that follows `after`; `make` is told its number and the time. Raises Conflict."""
        commit = make(after + 1, datetime.now(UTC).isoformat(timespec="milliseconds"))
        self.storage.create(f"{LOG}/{commit.commit:020d}.json", commit_bytes(commit))
        return commit

    def _refresh(self) -> None:
        """Numbers have no gaps, so what is new follows what is known."""
        found = (PurePosixPath(info.path).name for info in self.storage.names(LOG))
        for name in sorted(name for name in found if name.endswith(".json"))[len(self._known) :]:
            self._known.append(read_commit(self.storage.read(f"{LOG}/{name}")))
