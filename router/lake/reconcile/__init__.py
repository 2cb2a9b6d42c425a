"""Reconcile the stream, the tables and the workers' results: by exact sums and by every sequence.

    stream = bronze             message by message, byte by byte             (if the stream can be
                                reached)
    bronze                      no sequence missing, none twice
    bronze = silver + duplicates + conflicts + quarantine                    by sequence
    cost: bronze = silver       read from the text of each body again, by another parser than the
                                one that filled silver
    identities in silver        each once on its day
    silver = gold               count, cost and latency, for each day, tenant, provider, type and
                                status; minutes, hours and days
    results acked = usage       by assignment or request, and status         (if results can be
                                reached)
    budgets settled = silver    cost and events of each budget and window    (if their buckets can
                                be reached)

Each check is a Spark job (`comparison`) and names what differs: sequences, ids, groups. The driver
gets counts and the first names. `audit` looks at all of silver for identities that count more than
once.
"""

from router.lake.reconcile.comparison import ReconcileCheck, Reconciliation
from router.lake.reconcile.reconcile import reconcile

__all__ = ["ReconcileCheck", "Reconciliation", "reconcile"]
