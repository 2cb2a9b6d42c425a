import sqlite3

import pytest

from router.agents.schema import MIGRATIONS
from router.agents.store import ROWS_PER_STATEMENT, runs, write_rows


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((), []),
        ((7,), [(7, 7)]),
        ((4, 5, 6), [(4, 6)]),
        ((4, 5, 6, 9), [(4, 6), (9, 9)]),
        ((9, 4, 5, 3), [(9, 9), (4, 5), (3, 3)]),
    ],
)
def test_a_run_counts_up_by_one(numbers: tuple[int, ...], expected: list[tuple[int, int]]) -> None:
    assert list(runs(numbers)) == expected


def test_every_row_is_written_whole_however_many_handfuls_they_are() -> None:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE t (a, b, same)")
    rows = [(number, bytearray(b"\x00" * number)) for number in range(ROWS_PER_STATEMENT + 3)]
    write_rows(db, "INSERT INTO t (a, b, same) SELECT *, ? FROM (VALUES {rows})", rows, "x")
    found = db.execute("SELECT a, b, typeof(b), same FROM t ORDER BY a").fetchall()
    assert found == [(number, bytes(data), "blob", "x") for number, data in rows]


@pytest.mark.parametrize(
    ("status", "is_one"),
    [("received", True), ("applied", True), ("dead", True), ("done", False), ("", False)],
)
def test_a_store_knows_three_states_of_an_event(status: str, is_one: bool) -> None:
    db = sqlite3.connect(":memory:")
    for script in MIGRATIONS:
        db.executescript(script)
    try:
        db.execute(
            "INSERT INTO events VALUES (1, 'a', 'k', 's', 1, 'x', x'', ?, 1, NULL)", (status,)
        )
    except sqlite3.IntegrityError:
        assert not is_one
    else:
        assert is_one
