"""Write many rows by few statements.

`executemany` releases the interpreter's lock once a row, and a busy event loop keeps it for a switch interval each time: with many rows in
one statement the store's thread asks for it a hundredth as often. Pass bytes as a `bytearray`: for every `bytes` the sqlite3 module looks
for an adapter first, which costs three thousand instructions.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain

ROWS_PER_STATEMENT = 64
Row = tuple[object, ...]


def write_rows(db: sqlite3.Connection, statement: str, rows: Sequence[Row], *same: object) -> None:
    """`statement` holds `{rows}`, which becomes `(?, ?), (?, ?)`; `same`: the parameters in front of them, for all rows."""
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        handful = rows[start : start + ROWS_PER_STATEMENT]
        db.execute(_with_rows(statement, len(handful), len(handful[0])), (*same, *chain.from_iterable(handful)))


def runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run that counts up by one: 4 5 6 9 -> (4, 6) (9, 9)."""
    stretch: tuple[int, int] | None = None
    for number in numbers:
        if stretch is not None and number == stretch[1] + 1:
            stretch = stretch[0], number
            continue
        if stretch is not None:
            yield stretch
        stretch = number, number
    if stretch is not None:
        yield stretch


@cache
def _with_rows(statement: str, count: int, width: int) -> str:
    row = f"({', '.join('?' * width)})"
    return statement.format(rows=", ".join([row] * count))
