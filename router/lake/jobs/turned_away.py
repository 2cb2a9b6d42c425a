"""Events that do not count, and the ones that do instead: duplicates, and conflicts with what both said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from router.lake.files import columns_of
from router.lake.jobs.days import put
from router.lake.jobs.sift import Added
from router.lake.warehouse import File, Warehouse

CONTENT = ("provider_id", "event_type", "latency_ms", "cost")  # what is compared
WHICH = ("seq", "event_id", "first_seq", "time")


def turned_away(events: pa.Table, gone: pa.Table, warehouse: Warehouse, silver: Iterable[File], directory: str) -> Added:
    """The files that came of it. `gone` says which event counts instead of each; that one is in `silver`."""
    told = events.join(gone, "seq").sort_by("seq")
    conflicts = told.filter(told["is_conflict"])
    firsts = conflicts["first_seq"].to_pylist()
    said = _said(_at(warehouse, silver, firsts))
    both = {
        **{name: conflicts[name] for name in WHICH},
        "content": pa.array(_said(conflicts).values(), pa.string()),
        "first_content": pa.array([said[seq] for seq in firsts], pa.string()),
    }
    return {
        "duplicates": put(told.filter(pc.invert(told["is_conflict"])), warehouse, "duplicates", directory),
        "conflicts": put(pa.table(both), warehouse, "conflicts", directory),
    }


def _at(warehouse: Warehouse, silver: Iterable[File], sequences: list[int]) -> pa.Table:
    """Of silver, these; only files that may hold one of them are opened."""
    holding = [file for file in silver if any((file.min_seq or 0) <= one <= (file.max_seq or 0) for one in sequences)]
    events = columns_of(warehouse, "silver", holding, ("seq", *CONTENT))
    return events.filter(pc.is_in(events["seq"], pa.array(sequences, pa.int64())))


def _said(events: pa.Table) -> dict[int, str]:
    """By sequence, as JSON; a cost as it was summed."""
    return {row["seq"]: _json(row) for row in events.select(["seq", *CONTENT]).to_pylist()}


def _json(row: dict[str, Any]) -> str:
    return orjson.dumps({**{name: row[name] for name in CONTENT}, "cost": orjson.Fragment(f"{row['cost']:f}")}).decode()
