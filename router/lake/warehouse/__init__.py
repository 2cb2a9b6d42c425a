"""The warehouse: Parquet files, and the log of commits that says which of them count. No JVM is needed to read it.

    WAREHOUSE/
      _commits/00000000000000000042.json    one commit: files that came, files that went, in all tables at once
      bronze/  quarantine/  silver/  duplicates/  conflicts/  gold_minute/  gold_day/
        <job's own directory>/day=2026-11-20/*.parquet
      _aside/  _checkpoints/  _identities/  what jobs keep for themselves; no table

A reader asks `Warehouse(path).files(table)` and opens those and no others: what a job that died left behind is no part of
any table. A commit is one new file, created exclusively and never changed, so readers see a micro-batch wholly or not at
all, and `as_of_commit` gives a table as it was, for ever. What the columns mean stands in `tables/`.
"""

from router.lake.warehouse.commit import Commit, File, Seal
from router.lake.warehouse.log import Warehouse

__all__ = ["Commit", "File", "Seal", "Warehouse"]
