"""The files of a warehouse as of one cut: later commits do not disturb a reconciliation."""

from __future__ import annotations

from msgspec import Struct

from router.lake.warehouse import DataFile, Warehouse


class WarehouseSnapshot(Struct, frozen=True):
    """A warehouse as of one cut."""

    warehouse: Warehouse
    as_of: int

    def list_files(self, table: str) -> list[DataFile]:
        return self.warehouse.files(table, self.as_of)
