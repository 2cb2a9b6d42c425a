"""Reconcile the stream, the tables and the workers' results: by exact sums and by every sequence.

    stream = bronze             message by message, byte by byte             (if the stream can be reached)
    bronze                      no sequence missing, none twice
    bronze = silver + duplicates + conflicts + quarantine                    by sequence
    cost: bronze = silver       read from the text of each body again, by another parser than the one that filled silver
    silver = gold               count, cost and latency, for each tenant, provider, type and status; minutes and days
    results acked = usage       by assignment or request, and status         (if results can be reached)

Each check names what differs: sequences, ids, groups. No JVM is needed.
"""

from router.lake.reconcile.checks import ReconcileCheck, Reconciliation
from router.lake.reconcile.reconcile import reconcile

__all__ = ["ReconcileCheck", "Reconciliation", "reconcile"]
