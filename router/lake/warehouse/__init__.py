"""The warehouse: Delta tables, and `cuts`, which says which versions of them belong together. No
JVM is needed to read it.

    WAREHOUSE/
      bronze/  quarantine/  silver/  duplicates/  conflicts/  gold_minute/  gold_hour/  gold_day/
                                                  a Delta table each
      cuts/    versions that belong together    seals/    closed periods    removals/    what was
                                                          erased

Any tool that reads Delta reads them (docs/explanation/lake.md). A batch is a commit in each table
and then a cut, so a reader of cuts sees a batch wholly or not at all. Silver is the truth of
progress: its transactions name the last sequence of the stream.
"""

from router.lake.warehouse.commit import Cut, DataFile, Progress, Seal
from router.lake.warehouse.log import Warehouse
from router.lake.warehouse.removals import Removal, SequenceSpans

__all__ = ["Cut", "DataFile", "Progress", "Removal", "Seal", "SequenceSpans", "Warehouse"]
