"""What kind an event of silver is, and with it in which figures of gold it counts (`gold_columns`).

correlated is false          uncorrelated: its assignment was not known, so nothing proves that it is owed
adjustment is "budget"       counts in one budget; no figure of gold
adjustment is anything else  an adjustment: money, and no request
none of these                an outcome
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from router.lake.tables.gold_columns import EventKind, GoldColumn

KIND_COLUMNS = ("correlated", "adjustment", "estimated")  # of silver; null in a file that is older
BUDGET = "budget"

Kinds = dict[EventKind, pa.ChunkedArray]


def drop_budget_adjustments(events: pa.Table) -> pa.Table:
    """Return the events that some figure of gold is of."""
    is_of_budget = pc.fill_null(pc.equal(events["adjustment"], BUDGET), False)
    return events.filter(pc.invert(is_of_budget)) if pc.any(is_of_budget).as_py() else events


def find_kinds(events: pa.Table) -> Kinds:
    """Return for each kind which events are of it."""
    is_marked = pc.invert(pc.fill_null(events["correlated"], True))
    is_adjustment = pc.is_valid(events["adjustment"])
    is_outcome = pc.invert(pc.or_(is_marked, is_adjustment))
    return {
        "outcomes": is_outcome,
        "estimated": pc.and_(is_outcome, pc.fill_null(events["estimated"], False)),
        "money": pc.invert(is_marked),
        "adjustments": is_adjustment,
        "uncorrelated": is_marked,
    }


def select_figure(events: pa.Table, kinds: Kinds, column: GoldColumn) -> pa.ChunkedArray | None:
    """Return what each event adds to this figure, which is nothing where it is of another kind. None: no event adds anything.

    Outcomes are always counted: by them the histogram is made."""
    is_of_it = kinds[column.of]
    if column.source is None:
        return is_of_it.cast(pa.int64()) if column.of == "outcomes" or pc.any(is_of_it).as_py() else None
    values = pc.if_else(is_of_it, events[column.source], pa.scalar(None, events[column.source].type))
    if column.fold != "sum":
        return values
    return pc.fill_null(values, 0) if values.null_count < len(values) else None
