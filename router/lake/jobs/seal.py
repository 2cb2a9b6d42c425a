"""Close a period: its bill no longer changes, and every later report gives the same bytes.

A seal is a commit of its own. It names the last stream sequence that counts, the commit to read the tables as of, the columns, and
a hash over the period's gold rows in one canonical form, which proves later that nothing changed. A later event of a sealed
day becomes an adjustment of the day on which it arrives (`tables.late`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from hashlib import sha256

import orjson
import pyarrow as pa
from msgspec import Struct

from router.core.errors import Conflict, Misconfigured
from router.lake.files import read_columns
from router.lake.tables.gold import GOLD_DIMENSIONS, merge_sums
from router.lake.tables.gold_columns import AMOUNTS, FIGURES
from router.lake.tables.late import list_days, list_sealed_days
from router.lake.warehouse import Commit, Seal, Warehouse

SEAL_COLUMNS = ("window_start", *GOLD_DIMENSIONS, "corrects_window")


class SealContent(Struct, frozen=True):
    """How many rows the period's gold has, and their hash."""

    rows: int
    hash: str


def seal(warehouse: Warehouse, first: date, last: date) -> Seal:
    """Close these days, both inclusive, UTC. Ingests may commit meanwhile. Raises Misconfigured."""
    while True:
        _check(warehouse, first, last)
        made = _read_seal(warehouse, first, last, warehouse.head())
        if _append(warehouse, made):
            return made


def _append(warehouse: Warehouse, made: Seal) -> bool:
    """Commit the seal. False: an event of the period was committed meanwhile, so the seal must be made again."""
    head = made.commit
    while True:
        try:
            warehouse.append(lambda commit, at: Commit(commit=commit, kind="seal", at=at, seals=made), after=head)
        except Conflict:
            newer = warehouse.commits()[head:]
            if not newer:
                raise
            if not all(_is_outside_period(commit, made) for commit in newer):
                return False
            head += len(newer)
        else:
            return True


def _is_outside_period(commit: Commit, made: Seal) -> bool:
    """Whether a commit neither adds to the period nor replaces files nor closes days itself."""
    is_other = all(not made.first_day <= (file.day or "") <= made.last_day for file in commit.add.get("gold_day", ()))
    return is_other and not commit.remove and commit.seals is None


def _read_seal(warehouse: Warehouse, first: date, last: date, head: int) -> Seal:
    content = read_content(warehouse, first, last, head, FIGURES)
    return Seal(
        first_day=str(first),
        last_day=str(last),
        sequence=warehouse.last_sequence(head),
        commit=head,
        rows=content.rows,
        hash=content.hash,
        columns=FIGURES,
    )


def is_unchanged(warehouse: Warehouse, sealed: Seal) -> bool:
    """Return whether the period still reads as it was sealed."""
    first, last = date.fromisoformat(sealed.first_day), date.fromisoformat(sealed.last_day)
    return read_content(warehouse, first, last, sealed.commit, sealed.columns) == SealContent(sealed.rows, sealed.hash)


def read_content(warehouse: Warehouse, first: date, last: date, as_of_commit: int, columns: Sequence[str]) -> SealContent:
    digest, rows = sha256(), 0
    for line in read_canonical(warehouse, first, last, as_of_commit, columns):
        digest.update(line + b"\n")
        rows += 1
    return SealContent(rows, digest.hexdigest())


def read_canonical(warehouse: Warehouse, first: date, last: date, as_of_commit: int, columns: Sequence[str]) -> Iterator[bytes]:
    """Yield the period's rows in canonical form: one for each day and group, sorted, compact JSON, sorted keys, nine decimals.

    `columns`: the figures of the seal, so that a later column changes no hash."""
    days = {str(day) for day in list_days(first, last)}
    files = [file for file in warehouse.files("gold_day", as_of_commit) if file.day in days]
    if files:
        yield from _format_rows(merge_sums(read_columns(warehouse, "gold_day", files, (*SEAL_COLUMNS, *columns)), SEAL_COLUMNS, "day"))


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
        raise Misconfigured("--from, --to", f"{closed[0]} is sealed already: `router usage seal` lists what is")
