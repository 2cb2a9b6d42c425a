"""Which files of a project were saved: their times and sizes are compared four times a second, which every system can do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

SUFFIXES = (".py", ".json", ".yaml", ".yml", ".toml")
SKIPPED = frozenset({"__pycache__", "node_modules", "venv", "tests"})  # and whatever begins with a point
MAX_FILES = 2_000
INTERVAL_S = 0.25
MAX_READINGS = 8  # until files that go on changing are told as they are

Stamps = Mapping[str, tuple[int, int]]  # by name below the project: time in ns, size


class FileWatch:
    """Sees what is saved from the moment that it is made. A save that empties a file before it fills it is one change."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._before = read_stamps(root)

    async def wait_for_change(self) -> list[str]:
        """Return the names that were saved, made or removed since the last call, sorted."""
        while True:
            now = await self._read_settled()
            before, self._before = self._before, now
            if changed := sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name)):
                return changed
            await asyncio.sleep(INTERVAL_S)

    async def _read_settled(self) -> Stamps:
        """Return stamps that are those of before, or stayed the same for one interval."""
        last, now = self._before, read_stamps(self._root)
        for _ in range(MAX_READINGS):
            if now == last:
                break
            await asyncio.sleep(INTERVAL_S)
            last, now = now, read_stamps(self._root)
        return now


def read_stamps(root: Path) -> Stamps:
    """Return the stamps of the first MAX_FILES files that are watched."""
    stamps = {}
    for path in islice(_list_files(root), MAX_FILES):
        try:
            found = path.stat()
        except OSError:  # it is being replaced
            continue
        stamps[path.relative_to(root).as_posix()] = (found.st_mtime_ns, found.st_size)
    return stamps


def _list_files(root: Path) -> Iterator[Path]:
    for directory, directories, files in os.walk(root):
        directories[:] = sorted(name for name in directories if not name.startswith(".") and name not in SKIPPED)
        yield from (Path(directory) / name for name in sorted(files) if name.endswith(SUFFIXES))
