"""One micro-batch, from messages to all tables; what it wrote counts with its commit, and not before.

    messages ─> bronze, written ─> read back, typed, kept in memory
                                     ├─ no event ──────────────────> quarantine
                                     ├─ an identity that is known ──> duplicates, conflicts
                                     └─ the rest ──────────────────> silver ─> gold

Silver is a function of bronze and of the silver before it, so the tables can be made again from bronze alone. The identities
that are known are found in one column of silver; which rows count is decided on the driver, over a few longs a row.
"""

from __future__ import annotations

from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from router.lake.jobs.files import columns_of, put, rows_of, write
from router.lake.tables.dedupe import KEY_COLUMNS, KEYS, dropped
from router.lake.tables.event import typed
from router.lake.tables.gold import DIMENSIONS, partials
from router.lake.tables.late import lateness, lateness_counts, sealed_days, windows
from router.lake.warehouse import File, Warehouse

CONTENT = ("provider_id", "event_type", "latency_ms", "cost")


class Batch:
    """One attempt at a micro-batch."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse, name: str) -> None:
        self._spark = spark
        self._warehouse = warehouse
        self._directory = f"{name}-{uuid4().hex[:12]}"
        self.after = warehouse.head()  # what this builds on
        self._sealed = sealed_days(warehouse.seals())
        self.added: dict[str, list[File]] = {}
        self.counts: dict[str, int] = {}

    def read(self, messages: DataFrame) -> None:
        """The stream's messages into bronze."""
        self._write("bronze", messages)

    def derive(self) -> None:
        """Everything that follows from them."""
        if not self.added["bronze"]:
            return
        messages = rows_of(self._spark, self._warehouse, "bronze", self.added["bronze"])
        told = typed(messages).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            self._sort(told)
        finally:
            told.unpersist()

    @property
    def span(self) -> tuple[int | None, int | None]:
        """The first and the last sequence that was read."""
        files = self.added["bronze"]
        least = [file.min_seq for file in files if file.min_seq is not None]
        most = [file.max_seq for file in files if file.max_seq is not None]
        return min(least, default=None), max(most, default=None)

    def _sort(self, told: DataFrame) -> None:
        is_bad = f.col("reason").isNotNull().alias("is_bad")
        keys = told.select(*KEY_COLUMNS, lateness().alias("lateness"), is_bad).toArrow()
        fresh = keys.filter(pc.invert(keys["is_bad"]))
        gone = dropped(fresh.select(KEY_COLUMNS), self._known(told))
        self._count(keys, fresh, gone)
        if self.counts["quarantined"]:
            self._write("quarantine", told.where("reason is not null").select("seq", "time", "raw.*", "reason"))
        self._keep(told.where("reason is null"), gone)

    def _known(self, told: DataFrame) -> pa.Table:
        """Events that count already, of identities that this batch may have: half of an id is compared here, all in `dropped`."""
        stands = self._warehouse.files("silver", self.after)
        if not stands:
            return KEYS.empty_table()
        silver = rows_of(self._spark, self._warehouse, "silver", stands)
        ids = told.where("reason is null").select("id_high")
        return silver.select(*KEY_COLUMNS).join(f.broadcast(ids), "id_high", "left_semi").select(*KEY_COLUMNS).toArrow()

    def _count(self, keys: pa.Table, fresh: pa.Table, gone: pa.Table) -> None:
        conflicts = pc.sum(gone["is_conflict"]).as_py() or 0
        self.counts = {
            "read": len(keys),
            "quarantined": len(keys) - len(fresh),
            "duplicates": len(gone) - conflicts,
            "conflicts": conflicts,
            "accepted": len(fresh) - len(gone),
            **lateness_counts(fresh["lateness"]),
        }

    def _keep(self, valid: DataFrame, gone: pa.Table) -> None:
        away = f.broadcast(self._spark.createDataFrame(gone)) if len(gone) else None
        if self.counts["accepted"]:
            self._write("silver", valid if away is None else valid.join(away, "seq", "left_anti"))
            self._sum()
        if away is not None:
            self._turn_away(valid.join(away, "seq"), gone)

    def _sum(self) -> None:
        names = ("time", "timestamp", *DIMENSIONS, "latency_ms", "cost")
        events = columns_of(self._warehouse, self.added["silver"], names)
        minutes = partials(windows(events, self._sealed, "minute"))
        days = partials(windows(events, self._sealed, "day"))
        for table, sums in (("gold_minute", minutes), ("gold_day", days)):
            revision = pa.repeat(pa.scalar(self.after + 1, pa.int64()), len(sums))
            self.added[table] = put(sums.append_column("revision", revision), self._warehouse, table, self._directory)

    def _turn_away(self, repeated: DataFrame, gone: pa.Table) -> None:
        if self.counts["duplicates"]:
            self._write("duplicates", repeated.where("not is_conflict"))
        if self.counts["conflicts"]:
            firsts = gone.filter(gone["is_conflict"])["first_seq"].to_pylist()
            told = repeated.where("is_conflict").withColumn("content", _said())
            self._write("conflicts", told.join(f.broadcast(self._said_first(firsts)), "first_seq"))

    def _said_first(self, sequences: list[int]) -> DataFrame:
        """What the accepted ones said; only files that may hold them are opened."""
        least, most = min(sequences), max(sequences)
        silver = [*self._warehouse.files("silver", self.after), *self.added.get("silver", ())]
        held = [file for file in silver if (file.min_seq or 0) <= most and (file.max_seq or 0) >= least]
        wanted = f.col("seq").isin(sequences)
        rows = rows_of(self._spark, self._warehouse, "silver", held).where(wanted)
        return rows.select(f.col("seq").alias("first_seq"), _said().alias("first_content"))

    def _write(self, table: str, frame: DataFrame) -> None:
        self.added[table] = write(frame, self._warehouse, table, self._directory)


def _said() -> Column:
    """What is compared, as JSON; a cost as it was summed."""
    return f.to_json(f.struct(*CONTENT))
