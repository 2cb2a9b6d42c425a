"""Read the log of commits, and append to it.

A commit takes the number after the last one. A writer that read the log earlier and lost the race gets Conflict, reads it again
and decides again: two writers cannot both have built on the same state.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import PurePosixPath

from router.lake.warehouse.commit import Commit, DataFile, Seal, encode_commit, read_commit
from router.lake.warehouse.storage import Storage

LOG = "_commits"


class Warehouse:
    """One warehouse, at a directory or a URI. Commits are read once: they never change."""

    def __init__(self, location: str) -> None:
        self.storage = Storage(location)
        self.location = self.storage.location  # absolute: an executor has another working directory
        self._commits: list[Commit] = []

    def commits(self, as_of_commit: int | None = None) -> list[Commit]:
        """Return all commits, oldest first; or those up to and including one."""
        self._refresh()
        return self._commits[:as_of_commit]

    def head(self) -> int:
        """Return the number of the last commit; 0 before the first."""
        return len(self.commits())

    def files(self, table: str, as_of_commit: int | None = None) -> list[DataFile]:
        """Return the files of a table, now or as of a commit, in the order in which they were added."""
        present: dict[str, DataFile] = {}
        for commit in self.commits(as_of_commit):
            for path in commit.remove.get(table, ()):
                present.pop(path, None)
            present.update((file.path, file) for file in commit.add.get(table, ()))
        return list(present.values())

    def paths(self, table: str, as_of_commit: int | None = None) -> list[str]:
        """Return the paths of those files, for Spark, DuckDB or Trino."""
        return [self.storage.uri(file.path) for file in self.files(table, as_of_commit)]

    def seals(self, as_of_commit: int | None = None) -> list[Seal]:
        return [commit.seals for commit in self.commits(as_of_commit) if commit.seals is not None]

    def last_ingest(self, as_of_commit: int | None = None) -> Commit | None:
        """Return the ingest that read furthest: its `last` is the last sequence in the tables."""
        ingests = [one for one in self.commits(as_of_commit) if one.kind == "ingest" and one.last is not None]
        return max(ingests, key=lambda one: one.last or 0, default=None)

    def last_sequence(self, as_of_commit: int | None = None) -> int:
        """Return the last sequence in the tables; 0 before the first ingest."""
        last = self.last_ingest(as_of_commit)
        return 0 if last is None else last.last or 0

    def append(self, make: Callable[[int, str], Commit], *, after: int) -> Commit:
        """Write the commit that follows `after`; `make` gets its number and the time. Raises Conflict."""
        commit = make(after + 1, datetime.now(UTC).isoformat(timespec="milliseconds"))
        self.storage.create(f"{LOG}/{commit.commit:020d}.json", encode_commit(commit))
        return commit

    def _refresh(self) -> None:
        """Read new commits. Numbers have no gaps, so the new ones follow those that were read before."""
        names = (PurePosixPath(info.path).name for info in self.storage.list_names(LOG))
        for name in sorted(name for name in names if name.endswith(".json"))[len(self._commits) :]:
            self._commits.append(read_commit(self.storage.read(f"{LOG}/{name}")))
