"""Close a period: its bill no longer changes, and every later report gives the same bytes.

A seal names the last stream sequence that counts, the cut to read the tables as of, the columns,
and a hash over the period's gold rows in one canonical form, which proves later that nothing
changed. It counts from a mark in the table of days (`warehouse/seals`). A later event of a sealed
day becomes a correction in the day on which it arrives (`tables.late`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from hashlib import sha256
from uuid import uuid4

import msgspec
import orjson
import pyarrow as pa
from deltalake import Transaction
from msgspec import Struct

from router.core.errors import Conflict, Misconfigured
from router.lake.files import read_columns
from router.lake.tables.gold import GOLD_KEYS, merge_sums
from router.lake.tables.gold_columns import AMOUNTS, FIGURES, GOLD_DIMENSIONS
from router.lake.tables.late import list_days, list_sealed_days
from router.lake.warehouse import Cut, DataFile, Seal, Warehouse
from router.lake.warehouse.seals import name_mark

DAYS = "gold_day"
TRIES = 10
PATIENCE_S = 60.0  # for a batch that is being committed
ChooseRows = Callable[[pa.Table], pa.ChunkedArray]
SEAL_COLUMNS = ("window_start", *GOLD_DIMENSIONS, "corrects_window")


class SealContent(Struct, frozen=True):
    """How many rows the period's gold has, and their hash."""

    rows: int
    hash: str


def seal(warehouse: Warehouse, first: date, last: date) -> Seal:
    """Close these days, both inclusive, UTC, also beside ingests. Raises Misconfigured; Conflict
    beside a half-written batch.
    """
    for _ in range(TRIES):
        _check(warehouse, first, last)
        cut = _find_whole_cut(warehouse)
        made = _read_seal(warehouse, first, last, cut)
        warehouse.write_seal(made)
        if (version := _mark(warehouse, made, cut.versions[DAYS])) is not None:
            warehouse.append_cut("seal", {**cut.versions, DAYS: version})
            return made
    raise Conflict(f"{DAYS}: an ingest committed during each of {TRIES} tries to seal")


def _find_whole_cut(warehouse: Warehouse) -> Cut:
    """Return the newest cut once nothing of a later batch stands in the table of days."""
    for _ in range(round(PATIENCE_S * 10)):
        cut = warehouse.cut()
        days = warehouse.tables[DAYS].load()
        if cut is not None and days is not None and _has_same_sums(warehouse, cut.versions[DAYS]):
            return msgspec.structs.replace(cut, versions={**cut.versions, DAYS: days.version()})
        time.sleep(0.1)
    raise Conflict(
        f"{DAYS} has a batch or a backfill without its cut: run `router usage ingest`, or "
        "that backfill again, which completes it"
    )


def _has_same_sums(warehouse: Warehouse, version: int) -> bool:
    """Whether the table of days holds what it held at this version: marks and compactions change
    nothing of it.
    """
    table = warehouse.tables[DAYS]
    then, now = (
        {file.path: file for file in table.list_files(at_version)} for at_version in (version, None)
    )
    gone, come = (
        [files[path] for path in files if path not in others]
        for files, others in ((then, now), (now, then))
    )
    if sum(file.rows for file in gone) != sum(file.rows for file in come):
        return False
    return bool(_sum_files(warehouse, gone).equals(_sum_files(warehouse, come)))


def _sum_files(warehouse: Warehouse, files: Sequence[DataFile]) -> pa.Table:
    """Sum all rows of these files, in order of their keys."""
    return merge_sums(
        read_columns(warehouse, DAYS, files, (*GOLD_KEYS, *FIGURES)), GOLD_KEYS, "day"
    )


def _mark(warehouse: Warehouse, made: Seal, version: int) -> int | None:
    """Commit the mark after this version. None: something was committed since, so the seal must be
    made again.
    """
    return warehouse.tables[DAYS].commit(
        [], lambda days: [Transaction(name_mark(made), 1)] if days.version() == version else None
    )


def _read_seal(warehouse: Warehouse, first: date, last: date, cut: Cut) -> Seal:
    content = read_content(warehouse, first, last, cut.number, FIGURES)
    return Seal(
        id=uuid4().hex,
        first_day=str(first),
        last_day=str(last),
        sequence=_find_last(warehouse),
        cut=cut.number,
        rows=content.rows,
        hash=content.hash,
        columns=FIGURES,
    )


def _find_last(warehouse: Warehouse) -> int:
    progress = warehouse.last_progress()
    return 0 if progress is None else progress.last


def is_unchanged(warehouse: Warehouse, sealed: Seal) -> bool:
    """Return whether the period still reads as it was sealed."""
    first, last = date.fromisoformat(sealed.first_day), date.fromisoformat(sealed.last_day)
    return read_content(warehouse, first, last, sealed.cut, sealed.columns) == SealContent(
        sealed.rows, sealed.hash
    )


def read_content(
    warehouse: Warehouse, first: date, last: date, as_of_cut: int, columns: Sequence[str]
) -> SealContent:
    return hash_lines(read_canonical(warehouse, first, last, as_of_cut, columns))


def hash_lines(lines: Iterable[bytes]) -> SealContent:
    digest, rows = sha256(), 0
    for line in lines:
        digest.update(line + b"\n")
        rows += 1
    return SealContent(rows, digest.hexdigest())


def read_canonical(  # noqa: PLR0917
    warehouse: Warehouse,
    first: date,
    last: date,
    as_of_cut: int,
    columns: Sequence[str],
    keep: ChooseRows | None = None,
) -> Iterator[bytes]:
    """Yield the period's rows in canonical form: one for each day and group, sorted, compact JSON,
    sorted keys, nine decimals.

    `columns`: the figures of the seal, so that a later column changes no hash. `keep`: the rows
    that count; None: all.
    """
    days = {str(day) for day in list_days(first, last)}
    files = [file for file in warehouse.files("gold_day", as_of_cut) if file.day in days]
    if files:
        rows = read_columns(warehouse, "gold_day", files, (*SEAL_COLUMNS, *columns))
        yield from _format_rows(
            merge_sums(rows if keep is None else rows.filter(keep(rows)), SEAL_COLUMNS, "day")
        )


def _format_rows(rows: pa.Table) -> Iterator[bytes]:
    for row in rows.to_pylist():
        corrects = row["corrects_window"]
        fields = {
            **row,
            "window_start": str(row["window_start"].date()),
            "corrects_window": None if corrects is None else str(corrects.date()),
            **{name: f"{row[name]:.9f}" for name in AMOUNTS & row.keys() if row[name] is not None},
        }
        yield orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


def _check(warehouse: Warehouse, first: date, last: date) -> None:
    if last < first:
        raise Misconfigured("--to", f"{last} is before {first}")
    if last >= datetime.now(UTC).date():
        raise Misconfigured("--to", f"{last} is not over yet (UTC)")
    if closed := sorted(list_sealed_days(warehouse.seals()).intersection(list_days(first, last))):
        raise Misconfigured(
            "--from, --to", f"{closed[0]} is sealed already: `router usage seal` lists what is"
        )
