"""Keep runs that cover silver's files, each file once, and search all of them.

A run can be replaced at any time. The index deletes a run that it cannot read, or that covers a file which silver no longer has
(a compaction replaced it), and reads that run's files again. Several processes may keep runs of one warehouse: each uses only
the runs that match the files it sees.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from router.lake.files import read_columns
from router.lake.identities.run_store import RunStore
from router.lake.identities.sorted_run import SortedRun
from router.lake.tables.dedupe import KEY_COLUMNS, KEY_SCHEMA
from router.lake.warehouse import DataFile, Warehouse

MERGE_AT = 8  # runs of similar size are merged into one: a key is written again once for each eightfold growth up to LARGE
MAX_MERGED_KEYS = 2_000_000  # keys: a run of this size is merged no more. Merging eight of them takes seconds and a gigabyte


class IdentityIndex:
    """The index of one warehouse, as one process keeps it."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._store = RunStore(warehouse)
        self._runs = list(self._store.open_runs())

    def find_known(self, silver: Sequence[DataFile], ids: pa.ChunkedArray) -> pa.Table:
        """Return the keys of the events in these files of silver whose `id_high` is among `ids`."""
        self._cover(silver)
        wanted = np.unique(ids.to_numpy())
        return pa.concat_tables([KEY_SCHEMA.empty_table(), *(run.find(wanted) for run in self._runs)])

    def _cover(self, silver: Sequence[DataFile]) -> None:
        """Make the runs cover all of these files and no others, each file once."""
        self._runs = self._drop_stale_runs({file.path for file in silver})
        covered = set(chain.from_iterable(run.files for run in self._runs))
        for files in _split_by_rows(file for file in silver if file.path not in covered):
            self._runs.append(self._store.put(self._read_keys(files), (file.path for file in files)))
        while mergeable := _find_mergeable(self._runs):
            self._runs = [*(run for run in self._runs if run not in mergeable), self._merge(mergeable)]

    def _drop_stale_runs(self, present: set[str]) -> list[SortedRun]:
        """Keep the runs that match, the largest first: a merged run covers the files of the runs it was made of. Delete the others."""
        fitting: list[SortedRun] = []
        taken: set[str] = set()
        for run in sorted(self._runs, key=len, reverse=True):
            if run.files <= present and taken.isdisjoint(run.files):
                fitting.append(run)
                taken |= run.files
            else:
                self._store.remove(run)
        return fitting

    def _read_keys(self, files: Iterable[DataFile]) -> pa.Table:
        return read_columns(self._warehouse, "silver", files, KEY_COLUMNS)

    def _merge(self, runs: list[SortedRun]) -> SortedRun:
        one = self._store.put(pa.concat_tables([run.keys for run in runs]), chain.from_iterable(run.files for run in runs))
        for run in runs:
            self._store.remove(run)
        return one


def _split_by_rows(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    """Split the files into portions of just over LARGE rows, so that each portion gives one large run."""
    portion: list[DataFile] = []
    rows = 0
    for file in files:
        portion.append(file)
        rows += file.rows
        if rows >= MAX_MERGED_KEYS:
            yield portion
            portion, rows = [], 0
    if rows:
        yield portion


def _find_mergeable(runs: Iterable[SortedRun]) -> list[SortedRun]:
    """Return eight or more runs of similar size, none of them large; an empty list if there are none."""
    sizes: defaultdict[int, list[SortedRun]] = defaultdict(list)
    for run in runs:
        if len(run) < MAX_MERGED_KEYS:
            sizes[len(run).bit_length() // 3].append(run)  # three bits are a factor of eight
    return next((group for group in sizes.values() if len(group) >= MERGE_AT), [])
