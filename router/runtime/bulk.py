"""Many rows by few statements.

`executemany` gives up the interpreter's lock once a row, and a busy loop keeps it for a switch interval each time: with
handfuls of rows in one statement the store's thread asks for it a hundredth as often.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain

HANDFUL = 64
Row = tuple[object, ...]


def write_rows(db: sqlite3.Connection, statement: str, rows: Sequence[Row], *same: object) -> None:
    """`statement` holds `{rows}`, where `(?, ?), (?, ?)` stands in the end; `same`: its parameters in front of them, for all rows."""
    for start in range(0, len(rows), HANDFUL):
        handful = rows[start : start + HANDFUL]
        db.execute(_with_rows(statement, len(handful), len(handful[0])), (*same, *chain.from_iterable(handful)))


@cache
def _with_rows(statement: str, count: int, width: int) -> str:
    row = f"({', '.join('?' * width)})"
    return statement.format(rows=", ".join([row] * count))
