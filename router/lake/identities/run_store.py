"""The directory of a warehouse's runs: WAREHOUSE/_identities, or a temporary one of this process if the warehouse is in a bucket."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from router.lake.identities.sorted_run import DRAFT, RUN_SUFFIX, SortedRun, write_run
from router.lake.warehouse import Warehouse

HOME = "_identities"
LEFTOVER_S = 86_400.0  # the writer of an older draft has died


class RunStore:
    """Reads, writes and deletes the runs of one warehouse."""

    def __init__(self, warehouse: Warehouse) -> None:
        storage = warehouse.storage
        # Runs are mapped and searched, so they cannot lie in a bucket. The temporary directory is deleted with this object.
        self._own = None if storage.is_local else tempfile.TemporaryDirectory(prefix="router-identities-")
        self._home = Path(storage.resolve(HOME) if self._own is None else self._own.name)

    def open_runs(self) -> Iterator[SortedRun]:
        """Open all runs that can be read, and delete the others."""
        self._home.mkdir(parents=True, exist_ok=True)
        for path in self._home.iterdir():
            if path.suffix == RUN_SUFFIX:
                yield from _open_or_remove(path)
            elif path.name.startswith(DRAFT):
                _remove_if_old(path)

    def put(self, keys: pa.Table, files: Iterable[str]) -> SortedRun:
        return write_run(keys, files, self._home)

    def remove(self, run: SortedRun) -> None:
        """Delete a run; another process may have deleted it already."""
        run.path.unlink(missing_ok=True)


def _open_or_remove(path: Path) -> Iterator[SortedRun]:
    try:
        yield SortedRun(path)
    except (OSError, ValueError, KeyError):
        path.unlink(missing_ok=True)


def _remove_if_old(draft: Path) -> None:
    try:
        if draft.stat().st_mtime < time.time() - LEFTOVER_S:
            draft.unlink()
    except FileNotFoundError:
        pass  # its writer has renamed it
