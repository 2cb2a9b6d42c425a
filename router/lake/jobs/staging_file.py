"""Typed events between the two steps of a micro-batch: one uncompressed Arrow file for each range, deleted after the commit.

It is part of no table. `compact.sweep` deletes the files that a dead job left.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import pyarrow as pa

from router.lake.tables.arrow import EVENT
from router.lake.warehouse import Warehouse

STAGING = "_staging"


class StagingFile:
    """A staging file, open inside a `with`."""

    def __init__(self, warehouse: Warehouse, directory: str) -> None:
        self.path = f"{STAGING}/{directory}/events.arrow"
        self.events = 0
        storage = warehouse.storage
        storage.filesystem.create_dir(storage.resolve(f"{STAGING}/{directory}"), recursive=True)
        self._stream = storage.filesystem.open_output_stream(storage.resolve(self.path))
        self._writer = pa.ipc.new_file(self._stream, EVENT)

    def __enter__(self) -> StagingFile:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._writer.close()
        self._stream.close()

    def write(self, events: pa.RecordBatch) -> None:
        self._writer.write(events)
        self.events += len(events)


def read_staged(warehouse: Warehouse, path: str, names: Sequence[str] | None = None) -> pa.Table:
    """Read the events of a staging file, or some columns of them. A local file is mapped, so that nothing is copied."""
    storage = warehouse.storage
    source = pa.memory_map(storage.resolve(path)) if storage.is_local else storage.filesystem.open_input_file(storage.resolve(path))
    names = names or EVENT.names
    wanted = [EVENT.names.index(name) for name in names]
    return pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=wanted)).read_all().select(names)


def remove_staging(warehouse: Warehouse, path: str) -> None:
    warehouse.storage.remove(path.rpartition("/")[0])
