"""Write the rejects: duplicates with the sequence that counts instead, and conflicts with the content of both events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from router.lake.files import read_columns
from router.lake.jobs.daily_writer import write_days
from router.lake.jobs.derive import FilesByTable
from router.lake.warehouse import DataFile, Warehouse

CONTENT = ("provider_id", "event_type", "latency_ms", "cost")  # two events of one identity conflict if these differ
REJECT_COLUMNS = ("seq", "event_id", "first_seq", "time")


def write_rejects(events: pa.Table, rejects: pa.Table, warehouse: Warehouse, silver: Iterable[DataFile], directory: str) -> FilesByTable:
    """Write them and return the files. `rejects` names for each the event that counts instead, which is in `silver`."""
    rows = events.join(rejects, "seq").sort_by("seq")
    conflicts = rows.filter(rows["is_conflict"])
    firsts = conflicts["first_seq"].to_pylist()
    first_contents = _read_contents(_read_events(warehouse, silver, firsts))
    both = {
        **{name: conflicts[name] for name in REJECT_COLUMNS},
        "content": pa.array(_read_contents(conflicts).values(), pa.string()),
        "first_content": pa.array([first_contents[seq] for seq in firsts], pa.string()),
    }
    return {
        "duplicates": write_days(rows.filter(pc.invert(rows["is_conflict"])), warehouse, "duplicates", directory),
        "conflicts": write_days(pa.table(both), warehouse, "conflicts", directory),
    }


def _read_events(warehouse: Warehouse, silver: Iterable[DataFile], sequences: list[int]) -> pa.Table:
    """Read these events of silver; only files that may hold one of them are opened."""
    holding = [file for file in silver if any((file.min_seq or 0) <= one <= (file.max_seq or 0) for one in sequences)]
    events = read_columns(warehouse, "silver", holding, ("seq", *CONTENT))
    return events.filter(pc.is_in(events["seq"], pa.array(sequences, pa.int64())))


def _read_contents(events: pa.Table) -> dict[int, str]:
    """Return each event's content as JSON, by sequence; a cost has the form in which it was summed."""
    return {row["seq"]: _encode_content(row) for row in events.select(["seq", *CONTENT]).to_pylist()}


def _encode_content(row: dict[str, Any]) -> str:
    return orjson.dumps({**{name: row[name] for name in CONTENT}, "cost": orjson.Fragment(f"{row['cost']:f}")}).decode()
