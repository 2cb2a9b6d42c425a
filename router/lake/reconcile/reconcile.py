"""Run all the checks, one after the other, over the warehouse as it is when they begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from router.lake.reconcile.amounts import check_amounts
from router.lake.reconcile.checks import Account, Check
from router.lake.reconcile.columns import Tables
from router.lake.reconcile.sequences import check_sequences
from router.lake.reconcile.sums import check_sums
from router.lake.warehouse import Warehouse

if TYPE_CHECKING:
    from router.lake.reconcile.ledger import Ledger
    from router.lake.reconcile.stream import Reached


def reconcile(
    warehouse: Warehouse, stream: Reached | None = None, ledger: Ledger | None = None, told: Callable[[str], None] = lambda _: None
) -> Account:
    """`stream`: usage in the broker, None if it cannot be reached. `told` gets the name of the next check."""
    return Account(list(_checks(Tables(warehouse, warehouse.head()), stream, ledger, told)))


def _checks(tables: Tables, stream: Reached | None, ledger: Ledger | None, told: Callable[[str], None]) -> Iterator[Check]:
    told("the stream")
    yield _of_stream(tables, stream)
    told("sequences")
    yield from check_sequences(tables, stream.deleted if stream is not None else None)
    told("costs")
    yield check_amounts(tables)
    told("sums")
    yield from check_sums(tables)
    told("results")
    yield _of_results(tables, ledger)


def _of_stream(tables: Tables, stream: Reached | None) -> Check:
    if stream is None:
        return Check("stream = bronze", None, "the stream was not asked")
    from router.lake.reconcile.stream import check_stream

    return check_stream(tables, stream)


def _of_results(tables: Tables, ledger: Ledger | None) -> Check:
    if ledger is None:
        return Check("results acked = usage", None, "there are no results to be asked")
    from router.lake.reconcile.ledger import check_ledger

    return check_ledger(tables, ledger)
