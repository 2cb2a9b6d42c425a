"""Find the events of silver that have an identity of a batch: in the task that decides about the bucket.

A file is sorted by the first half of the identity, so a lookup is a binary search in one column of integers. Each worker process
keeps the columns that it read last, up to CACHED_BYTES: a continuous ingest asks the same files every few seconds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from router.lake.tables.arrow import EVENT
from router.lake.tables.dedupe import KEY_COLUMNS
from router.lake.warehouse.commit import DataFile
from router.lake.warehouse.storage import Storage

CONTENT = ("provider_id", "event_type", "latency_ms", "cost")  # two events of one identity conflict if these differ
ADJUSTMENT_CONTENT = ("adjustment", "adjusts", "budget")  # or these
KNOWN = pa.schema([EVENT.field(name) for name in (*KEY_COLUMNS, *CONTENT, *ADJUSTMENT_CONTENT)])
CACHED_BYTES = 256 * 1024 * 1024

Integers = npt.NDArray[np.int64]


class ColumnCache:
    """Sorted columns by path. Files never change."""

    def __init__(self, most_bytes: int) -> None:
        self._columns: OrderedDict[str, Integers] = OrderedDict()
        self._bytes = 0
        self._most = most_bytes

    def read(self, storage: Storage, path: str) -> Integers:
        place = storage.resolve(path)
        if (found := self._columns.get(place)) is not None:
            self._columns.move_to_end(place)
            return found
        column = np.sort(_read(storage, path, ["id_high"])["id_high"].to_numpy())
        self._columns[place] = column
        self._bytes += column.nbytes
        while self._bytes > self._most and len(self._columns) > 1:
            self._bytes -= self._columns.popitem(last=False)[1].nbytes
        return column


_cache = ColumnCache(CACHED_BYTES)


def find_known(storage: Storage, files: Iterable[DataFile], ids: pa.ChunkedArray) -> pa.Table:
    """Return keys and content of the events in these files of silver whose `id_high` is among `ids`."""
    wanted = np.unique(ids.to_numpy())
    found = [KNOWN.empty_table()]
    for file in files:
        hits = _select_present(wanted, _cache.read(storage, file.path))
        if len(hits):
            rows = _read(storage, file.path, KNOWN.names)
            found.append(rows.filter(pc.is_in(rows["id_high"], pa.array(hits, pa.int64()))))
    return pa.concat_tables(found, promote_options="default").select(KNOWN.names).cast(KNOWN)  # a file may be older than a column


def _select_present(wanted: Integers, column: Integers) -> Integers:
    if not len(column):
        return column
    places = np.minimum(np.searchsorted(column, wanted), len(column) - 1)
    present: Integers = wanted[column[places] == wanted]
    return present


def _read(storage: Storage, path: str, names: Sequence[str]) -> pa.Table:
    with storage.filesystem.open_input_file(storage.resolve(path)) as source:
        return pq.ParquetFile(source).read(list(names))
