"""The warehouse: Parquet files, and the log of commits that says which of them count. No JVM is needed to read it.

    WAREHOUSE/
      _commits/00000000000000000042.json    one commit: files added and files removed, in all tables at once
      bronze/  quarantine/  silver/  duplicates/  conflicts/  gold_minute/  gold_day/
        <job's own directory>/day=2026-11-20/*.parquet
      _staging/  _checkpoints/  _identities/  what jobs keep for themselves; no table

A reader asks `Warehouse(path).files(table)` and opens those files and no others: files that a dead job left are part of no
table. A commit is one new file, created exclusively and never changed, so readers see a micro-batch completely or not at all,
and `as_of_commit` gives a table as it was, for ever. `tables/` says what the columns mean.
"""

from router.lake.warehouse.commit import Commit, DataFile, Seal
from router.lake.warehouse.log import Warehouse

__all__ = ["Commit", "DataFile", "Seal", "Warehouse"]
