"""Tables: sorted, filtered and bounded by the address of their page, and exported as CSV and JSON.
Pure.

?sort=-count    by a column, - for descending     ?q=text    rows of which a cell contains it
?limit=200      rows on the page, at most 1000    ?format=csv | json    all rows that match, as a file
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlencode

import orjson
from msgspec import Struct

from router.core.legible import escape_cell

MAX_ROWS = 10_000  # that a page reads, and an export has
DEFAULT_SHOWN = 100
MAX_SHOWN = 1_000
SORT, SEARCH, LIMIT, FORMAT = "sort", "q", "limit", "format"

Cell = str | int | float | None
Row = Mapping[str, Cell]


class Column(Struct, frozen=True):
    """`kind`: text | id | number | time | verdict, how a cell looks. `href`: the name of the row's entry with the cell's link."""

    name: str
    label: str
    kind: str = "text"
    href: str | None = None


class TableFilter(Struct, frozen=True):
    """A field of the form above a table, and of the address; `hint` is what it takes."""

    name: str
    label: str
    hint: str = ""
    is_hidden: bool = False  # it stays in the address, and is no field


class Table(Struct, frozen=True, kw_only=True):
    """`rows` come in an order that means something; `empty` says what to do if there is none;
    `note` what was left out.

    `choose`: the name of the row's entry by which who may write chooses rows, in boxes of the form
    `chosen`.
    """

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    empty: str
    filters: tuple[TableFilter, ...] = ()
    note: str = ""
    choose: str = ""


class TableView(Struct, frozen=True, kw_only=True):
    """A table as an address wants it. `sorts`: for each column its next address and its present
    direction.
    """

    table: Table
    shown: Sequence[Row]
    matching: int
    values: Mapping[str, str]
    sorts: Mapping[str, tuple[str, str]]
    exports: Mapping[str, str]


def view_table(table: Table, params: Mapping[str, str]) -> TableView:
    """Sort, filter and bound the rows. Names and numbers that mean nothing are left out."""
    rows = choose_rows(table, params)
    names = [*(filter_.name for filter_ in table.filters), SEARCH, LIMIT, SORT]
    values = {name: params[name] for name in names if params.get(name)}
    sorts = {column.name: _build_sort(column, values) for column in table.columns}
    exports = {kind: "?" + urlencode({**values, FORMAT: kind}) for kind in ("csv", "json")}
    return TableView(
        table=table,
        shown=rows[: _read_limit(params)],
        matching=len(rows),
        values=values,
        sorts=sorts,
        exports=exports,
    )


def choose_rows(table: Table, params: Mapping[str, str]) -> Sequence[Row]:
    """All rows that match, in order."""
    rows = _search(table, params.get(SEARCH, ""))
    name, is_descending = _read_sort(params.get(SORT, ""))
    if name not in {column.name for column in table.columns}:
        return rows
    there = [row for row in rows if row.get(name) is not None]
    there.sort(key=lambda row: _order(row[name]), reverse=is_descending)
    return [*there, *(row for row in rows if row.get(name) is None)]


def write_csv(table: Table, rows: Iterable[Row]) -> str:
    """The rows for a spreadsheet: a text that would be a formula is marked as text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    for row in rows:
        cells = (row.get(column.name) for column in table.columns)
        writer.writerow([escape_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    return out.getvalue()


def write_json(table: Table, rows: Iterable[Row]) -> bytes:
    """The rows as a list of objects; absent values are left out."""
    names = [column.name for column in table.columns]
    fields = [{name: row[name] for name in names if row.get(name) is not None} for row in rows]
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def _search(table: Table, text: str) -> Sequence[Row]:
    wanted = text.casefold()
    if not wanted:
        return table.rows
    names = [column.name for column in table.columns]
    return [
        row
        for row in table.rows
        if any(wanted in str(row[name]).casefold() for name in names if row.get(name) is not None)
    ]


def _order(cell: Cell) -> tuple[int, float, str]:
    """Numbers before texts."""
    return (0, cell, "") if isinstance(cell, int | float) else (1, 0.0, str(cell).casefold())


def _read_sort(text: str) -> tuple[str, bool]:
    return text.removeprefix("-"), text.startswith("-")


def _build_sort(column: Column, values: Mapping[str, str]) -> tuple[str, str]:
    name, is_descending = _read_sort(values.get(SORT, ""))
    direction = "" if name != column.name else "descending" if is_descending else "ascending"
    first = f"-{column.name}" if column.kind in ("number", "time") else column.name
    other = {"": first, "descending": column.name, "ascending": f"-{column.name}"}[direction]
    return "?" + urlencode({**values, SORT: other}), direction


def _read_limit(params: Mapping[str, str]) -> int:
    text = params.get(LIMIT, "")
    return (
        min(int(text), MAX_SHOWN)
        if text.isascii() and text.isdigit() and 0 < len(text) < 6 and int(text)
        else DEFAULT_SHOWN
    )
