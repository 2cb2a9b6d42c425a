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

from router.lake.identities import Identities
from router.lake.jobs.aside import put_aside
from router.lake.jobs.landing import Landed
from router.lake.jobs.sift import Added, Sifting, joined, sifted
from router.lake.jobs.turned_away import turned_away
from router.lake.tables.dedupe import KEY_COLUMNS, dropped
from router.lake.tables.late import lateness, lateness_counts, sealed_days
from router.lake.warehouse import Warehouse


class Batch:
    """One attempt at a micro-batch."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse, identities: Identities, landed: Sequence[Landed]) -> None:
        self._spark = spark
        self._warehouse = warehouse
        self._identities = identities
        self._landed = [one for one in landed if one.bronze]
        self._directory = f"ingest-{uuid4().hex[:12]}"
        self.after = warehouse.head()  # the commit that this attempt builds on
        self._silver = warehouse.files("silver", self.after)
        self.added: Added = joined({"bronze": one.bronze, "quarantine": one.quarantine} for one in self._landed)
        self.counts: dict[str, int] = {}

    def derive(self) -> None:
        """Write silver, gold, duplicates and conflicts of the staged messages."""
        if not self._landed:
            return
        keys = pa.concat_tables([put_aside(self._warehouse, one.aside, [*KEY_COLUMNS, "time", "timestamp"]) for one in self._landed])
        before = self._identities.known(self._silver, keys["id_high"])
        gone = dropped(keys, before)
        self._count(keys, gone)
        done = sifted(self._spark, [self._sifting(number, one, gone) for number, one in enumerate(self._landed)])
        counting = [*self._silver, *done.added["silver"]]
        self.added = joined([self.added, done.added, turned_away(done.gone, gone, self._warehouse, counting, self._directory)])

    @property
    def span(self) -> tuple[int | None, int | None]:
        """The first and the last sequence of the batch."""
        files = self.added.get("bronze", ())
        least = [file.min_seq for file in files if file.min_seq is not None]
        most = [file.max_seq for file in files if file.max_seq is not None]
        return min(least, default=None), max(most, default=None)

    def _sifting(self, number: int, one: Landed, gone: pa.Table) -> Sifting:
        return Sifting(
            warehouse=self._warehouse.location,
            aside=one.aside,
            gone=gone["seq"].combine_chunks(),
            directory=f"{self._directory}-{number}",
            sealed=sealed_days(self._warehouse.seals(self.after)),
            revision=self.after + 1,
        )

    def _count(self, keys: pa.Table, gone: pa.Table) -> None:
        read = sum(one.messages for one in self._landed)
        conflicts = pc.sum(gone["is_conflict"]).as_py() or 0
        self.counts = {
            "read": read,
            "quarantined": read - len(keys),
            "duplicates": len(gone) - conflicts,
            "conflicts": conflicts,
            "accepted": len(keys) - len(gone),
            **lateness_counts(lateness(keys)),
        }
