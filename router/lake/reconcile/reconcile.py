"""Run all the checks, one after the other, over the warehouse as it is when they begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from router.lake.reconcile.budgets import BUDGETS_CHECK, check_budgets
from router.lake.reconcile.checks import ReconcileCheck, Reconciliation
from router.lake.reconcile.identities import check_identities
from router.lake.reconcile.messages import check_messages
from router.lake.reconcile.results import RESULTS_CHECK, check_results
from router.lake.reconcile.snapshot import WarehouseSnapshot
from router.lake.reconcile.stream import refuse_other_stream
from router.lake.reconcile.sums import check_sums
from router.lake.warehouse import Warehouse

if TYPE_CHECKING:
    from router.budgets.sums import BudgetSum
    from router.lake.reconcile.results import ResultStreams
    from router.lake.reconcile.stream import OpenStream


def reconcile(
    spark: SparkSession,
    warehouse: Warehouse,
    stream: OpenStream | None = None,
    streams: ResultStreams | None = None,
    *,
    settled: Sequence[BudgetSum] | None = None,
    on_check: Callable[[str], None] = lambda _: None,
) -> Reconciliation:
    """`stream`: usage in the broker, None if it cannot be reached; `settled`: what is settled of budgets, likewise. `on_check` gets the
    name of the next check.
    """
    tables = WarehouseSnapshot(warehouse, warehouse.head())
    if stream is not None:
        refuse_other_stream(tables, stream)
    return Reconciliation(list(_run_checks(spark, tables, stream, streams, settled=settled, on_check=on_check)))


def _run_checks(
    spark: SparkSession,
    tables: WarehouseSnapshot,
    stream: OpenStream | None,
    streams: ResultStreams | None,
    *,
    settled: Sequence[BudgetSum] | None,
    on_check: Callable[[str], None],
) -> Iterator[ReconcileCheck]:
    on_check("messages")
    yield from check_messages(spark, tables, stream)
    on_check("identities")
    yield check_identities(spark, tables)
    on_check("sums")
    yield from check_sums(spark, tables)
    on_check("results")
    if streams is None:
        yield ReconcileCheck(RESULTS_CHECK, None, "there are no results to be asked")
    else:
        yield check_results(spark, tables, streams)
    on_check("budgets")
    if settled is None:
        yield ReconcileCheck(BUDGETS_CHECK, None, "the budgets cannot be read")
    else:
        yield check_budgets(spark, tables, settled)
