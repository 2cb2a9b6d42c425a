"""Run all the checks, one after the other, over the warehouse as it is when they begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from router.lake.reconcile.amounts import check_amounts
from router.lake.reconcile.checks import ReconcileCheck, Reconciliation
from router.lake.reconcile.sequences import check_sequences
from router.lake.reconcile.snapshot import WarehouseSnapshot
from router.lake.reconcile.sums import check_sums
from router.lake.warehouse import Warehouse

if TYPE_CHECKING:
    from router.lake.reconcile.results import ResultStreams
    from router.lake.reconcile.stream import OpenStream


def reconcile(
    warehouse: Warehouse,
    stream: OpenStream | None = None,
    streams: ResultStreams | None = None,
    on_check: Callable[[str], None] = lambda _: None,
) -> Reconciliation:
    """`stream`: usage in the broker, None if it cannot be reached. `on_check` gets the name of the next check."""
    return Reconciliation(list(_run_checks(WarehouseSnapshot(warehouse, warehouse.head()), stream, streams, on_check)))


def _run_checks(
    tables: WarehouseSnapshot, stream: OpenStream | None, streams: ResultStreams | None, on_check: Callable[[str], None]
) -> Iterator[ReconcileCheck]:
    on_check("the stream")
    yield _check_stream(tables, stream)
    on_check("sequences")
    yield from check_sequences(tables, stream.deleted if stream is not None else None)
    on_check("costs")
    yield check_amounts(tables)
    on_check("sums")
    yield from check_sums(tables)
    on_check("results")
    yield _check_results(tables, streams)


def _check_stream(tables: WarehouseSnapshot, stream: OpenStream | None) -> ReconcileCheck:
    if stream is None:
        return ReconcileCheck("stream = bronze", None, "the stream was not asked")
    from router.lake.reconcile.stream import check_stream

    return check_stream(tables, stream)


def _check_results(tables: WarehouseSnapshot, streams: ResultStreams | None) -> ReconcileCheck:
    if streams is None:
        return ReconcileCheck("results acked = usage", None, "there are no results to be asked")
    from router.lake.reconcile.results import check_results

    return check_results(tables, streams)
