"""Write the rejects: duplicates with the sequence that counts instead, and conflicts with the content of both events."""

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

CONTENT = ("provider_id", "event_type", "latency_ms", "cost")  # two events of one identity conflict if these differ
COLUMNS = ("seq", "event_id", "first_seq", "time")


def turned_away(events: pa.Table, gone: pa.Table, warehouse: Warehouse, silver: Iterable[File], directory: str) -> Added:
    """Write them and return the files. `gone` names for each the event that counts instead, which is in `silver`."""
    told = events.join(gone, "seq").sort_by("seq")
    conflicts = told.filter(told["is_conflict"])
    firsts = conflicts["first_seq"].to_pylist()
    first_contents = _said(_at(warehouse, silver, firsts))
    both = {
        **{name: conflicts[name] for name in COLUMNS},
        "content": pa.array(_said(conflicts).values(), pa.string()),
        "first_content": pa.array([first_contents[seq] for seq in firsts], pa.string()),
    }
    return {
        "duplicates": put(told.filter(pc.invert(told["is_conflict"])), warehouse, "duplicates", directory),
        "conflicts": put(pa.table(both), warehouse, "conflicts", directory),
    }


def _at(warehouse: Warehouse, silver: Iterable[File], sequences: list[int]) -> pa.Table:
    """Read these events of silver; only files that may hold one of them are opened."""
    holding = [file for file in silver if any((file.min_seq or 0) <= one <= (file.max_seq or 0) for one in sequences)]
    events = columns_of(warehouse, "silver", holding, ("seq", *CONTENT))
    return events.filter(pc.is_in(events["seq"], pa.array(sequences, pa.int64())))


def _said(events: pa.Table) -> dict[int, str]:
    """Return each event's content as JSON, by sequence; a cost has the form in which it was summed."""
    return {row["seq"]: _json(row) for row in events.select(["seq", *CONTENT]).to_pylist()}


def _json(row: dict[str, Any]) -> str:
    return orjson.dumps({**{name: row[name] for name in CONTENT}, "cost": orjson.Fragment(f"{row['cost']:f}")}).decode()
