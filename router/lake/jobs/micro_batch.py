"""One micro-batch: from staged ranges to all tables. Its files count when its commit is written, not before.

    staged ranges ─> keys of all events ┬─ an identity that is known, or that comes twice ──> duplicates, conflicts
                                        └─ the rest, range by range (`derive`) ──────────> silver ─> gold

Silver is a function of bronze and of the silver before it, so the tables can be made again from bronze alone. The driver
decides which rows count, from a few integers for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from router.core.errors import RouterError
from router.lake.identities import IdentityIndex
from router.lake.jobs.derive import DeriveTask, FilesByTable, derive_all, merge_files
from router.lake.jobs.rejects import write_rejects
from router.lake.jobs.staging import StagedRange
from router.lake.jobs.staging_file import read_staged
from router.lake.tables.dedupe import KEY_COLUMNS, find_rejects
from router.lake.tables.late import compute_lateness, count_late, list_sealed_days
from router.lake.warehouse import Warehouse


class Overtaken(RouterError):
    """Another ingest committed a part of this batch meanwhile. A new run reads on after it."""

    code = "overtaken"


class MicroBatch:
    """What of the staged ranges is new after the newest commit. A writer that stood still may hold ranges that another one committed."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse, identities: IdentityIndex, landed: Sequence[StagedRange]) -> None:
        self._spark = spark
        self._warehouse = warehouse
        self._identities = identities
        self._directory = f"ingest-{uuid4().hex[:12]}"
        self.after = warehouse.head()  # the commit that this attempt builds on
        self._staged = select_new(landed, warehouse.last_sequence(self.after))
        self._silver = warehouse.files("silver", self.after)
        self.added: FilesByTable = merge_files({"bronze": one.bronze, "quarantine": one.quarantine} for one in self._staged)
        self.counts: dict[str, int] = {}

    @property
    def is_empty(self) -> bool:
        """Whether all of it is committed, or there was no message."""
        return not self._staged

    def write_tables(self) -> None:
        """Write silver, gold, duplicates and conflicts of the staged messages."""
        keys = pa.concat_tables(
            [read_staged(self._warehouse, one.staging_path, [*KEY_COLUMNS, "time", "timestamp"]) for one in self._staged]
        )
        before = self._identities.find_known(self._silver, keys["id_high"])
        rejects = find_rejects(keys, before)
        self._count(keys, rejects)
        done = derive_all(self._spark, [self._make_task(number, one, rejects) for number, one in enumerate(self._staged)])
        counting = [*self._silver, *done.added["silver"]]
        self.added = merge_files([self.added, done.added, write_rejects(done.rejects, rejects, self._warehouse, counting, self._directory)])

    @property
    def span(self) -> tuple[int | None, int | None]:
        """The first and the last sequence of the batch."""
        files = self.added.get("bronze", ())
        least = [file.min_seq for file in files if file.min_seq is not None]
        most = [file.max_seq for file in files if file.max_seq is not None]
        return min(least, default=None), max(most, default=None)

    def _make_task(self, number: int, one: StagedRange, rejects: pa.Table) -> DeriveTask:
        return DeriveTask(
            warehouse=self._warehouse.location,
            staging_path=one.staging_path,
            rejects=rejects["seq"].combine_chunks(),
            directory=f"{self._directory}-{number}",
            sealed=list_sealed_days(self._warehouse.seals(self.after)),
            revision=self.after + 1,
        )

    def _count(self, keys: pa.Table, rejects: pa.Table) -> None:
        read = sum(one.messages for one in self._staged)
        conflicts = pc.sum(rejects["is_conflict"]).as_py() or 0
        self.counts = {
            "read": read,
            "quarantined": read - len(keys),
            "duplicates": len(rejects) - conflicts,
            "conflicts": conflicts,
            "accepted": len(keys) - len(rejects),
            **count_late(compute_lateness(keys)),
        }


def select_new(landed: Sequence[StagedRange], last: int) -> list[StagedRange]:
    """Return the ranges after `last`, the last sequence of the log. Raises Overtaken for one that lies on both sides of it."""
    new = [one for one in landed if one.last > last]
    if any(one.first <= last for one in new):
        raise Overtaken(f"another ingest has committed up to sequence {last} meanwhile; start this one again")
    return new
