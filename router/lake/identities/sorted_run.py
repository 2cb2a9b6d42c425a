"""One run: keys sorted by half of their identity, in an Arrow file that is mapped, not read. Its metadata names the files it covers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

DRAFT = ".draft-"
RUN_SUFFIX = ".arrow"
_FILES = b"silver"

Ids = npt.NDArray[np.int64]


class SortedRun:
    """A mapped run. It stays readable while this object lives, even if another process deletes its file."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, ValueError or KeyError (Arrow's and msgspec's errors are such) if the file is no complete run."""
        self.path = path
        rows = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        self.files = frozenset(msgspec.json.decode(rows.schema.metadata[_FILES], type=list[str]))
        self.keys: pa.Table = pa.table(rows).replace_schema_metadata()
        self._ids: Ids = rows["id_high"].to_numpy()

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, wanted: Ids) -> pa.Table:
        """Return the keys that are in this run. `wanted` is sorted and unique. This compares half an identity, `dedupe` all of it."""
        firsts = np.searchsorted(self._ids, wanted)
        is_here = self._ids[np.minimum(firsts, len(self) - 1)] == wanted
        ends = np.searchsorted(self._ids, wanted[is_here], side="right")
        places = [place for first, end in zip(firsts[is_here].tolist(), ends.tolist(), strict=True) for place in range(first, end)]
        return self.keys.take(pa.array(places, pa.int64()))


def write_run(keys: pa.Table, files: Iterable[str], directory: Path) -> SortedRun:
    """Write a run of these keys (at least one). The file gets its name only when it is complete and on the disk."""
    rows = keys.sort_by("id_high").combine_chunks().replace_schema_metadata({_FILES: msgspec.json.encode(sorted(files))})
    name = uuid4().hex
    draft, path = directory / f"{DRAFT}{name}", directory / f"{name}{RUN_SUFFIX}"
    with draft.open("wb") as file:
        with pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    return SortedRun(path)
