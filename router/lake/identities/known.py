"""The runs that stand for silver's files, each for some; and the search in all of them.

Nothing hangs on a run: one that cannot be read, or stands for a file that silver has no more (a compaction replaced it), goes,
and its files are read again. Several processes may keep runs of one warehouse: each trusts only those that fit what it sees.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from router.lake.files import columns_of
from router.lake.identities.run import Run
from router.lake.identities.shelf import Shelf
from router.lake.tables.dedupe import KEY_COLUMNS, KEYS
from router.lake.warehouse import File, Warehouse

CROWD = 8  # runs of about a size, before they are made one: a key is written again once for each eightfold up to LARGE
LARGE = 2_000_000  # keys: from there on a run is left alone. Making one of eight such takes seconds and a gigabyte


class Identities:
    """Those of one warehouse, as one process keeps them."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._shelf = Shelf(warehouse)
        self._runs = list(self._shelf.runs())

    def known(self, silver: Sequence[File], ids: pa.ChunkedArray) -> pa.Table:
        """The keys of the events in these files of silver whose `id_high` is among `ids`."""
        self._follow(silver)
        wanted = np.unique(ids.to_numpy())
        return pa.concat_tables([KEYS.empty_table(), *(run.find(wanted) for run in self._runs)])

    def _follow(self, silver: Sequence[File]) -> None:
        """Runs for all of these files and no others, each file once."""
        self._runs = self._fitting({file.path for file in silver})
        covered = set(chain.from_iterable(run.files for run in self._runs))
        for files in _portions(file for file in silver if file.path not in covered):
            self._runs.append(self._shelf.put(self._keys(files), (file.path for file in files)))
        while crowd := _crowd(self._runs):
            self._runs = [*(run for run in self._runs if run not in crowd), self._merged(crowd)]

    def _fitting(self, present: set[str]) -> list[Run]:
        """The largest first: what was merged of others stands for their files, too."""
        fitting: list[Run] = []
        taken: set[str] = set()
        for run in sorted(self._runs, key=len, reverse=True):
            if run.files <= present and taken.isdisjoint(run.files):
                fitting.append(run)
                taken |= run.files
            else:
                self._shelf.remove(run)
        return fitting

    def _keys(self, files: Iterable[File]) -> pa.Table:
        return columns_of(self._warehouse, "silver", files, KEY_COLUMNS)

    def _merged(self, crowd: list[Run]) -> Run:
        one = self._shelf.put(pa.concat_tables([run.keys for run in crowd]), chain.from_iterable(run.files for run in crowd))
        for run in crowd:
            self._shelf.remove(run)
        return one


def _portions(files: Iterable[File]) -> Iterator[list[File]]:
    """Of so many rows that a run is large, and no larger than it must."""
    portion: list[File] = []
    rows = 0
    for file in files:
        portion.append(file)
        rows += file.rows
        if rows >= LARGE:
            yield portion
            portion, rows = [], 0
    if rows:
        yield portion


def _crowd(runs: Iterable[Run]) -> list[Run]:
    """Eight or more of about a size, none of them large; nothing where there are no such."""
    sizes: defaultdict[int, list[Run]] = defaultdict(list)
    for run in runs:
        if len(run) < LARGE:
            sizes[len(run).bit_length() // 3].append(run)  # eightfold is three bits
    return next((crowd for crowd in sizes.values() if len(crowd) >= CROWD), [])
