"""A store looked over: is the file whole, does anything wait, does anything contradict itself.

integrity     SQLite's own check of every page and index
schema        tables, indexes, triggers and views are the store's own, and no other is there
durability    a commit reaches the disk: the journal is a WAL
received      events that are not applied: a crash, or a failing adapter
unsent        outgoing messages without a publish ack
exhausted     events that were begun as often as allowed
gaps          turns that are missing: an event was applied, and its row is gone
orphans       outgoing messages whose event is gone
positions     places, turns and attempts that no agent gives: an agent refuses such a store, or
              stumbles over it
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from msgspec import Struct

from router.agents.database import open_read_only
from router.agents.schema import MAX_POSITION
from router.agents.schema_check import differences

OK, WARN, FAIL = "ok", "warn", "fail"
POSITIONS = f"""
    SELECT count(*) FROM events
    WHERE place NOT BETWEEN 1 AND {MAX_POSITION} OR typeof(attempts) <> 'integer' OR attempts NOT BETWEEN 0 AND {MAX_POSITION}
       OR turn IS NOT NULL AND (typeof(turn) <> 'integer' OR turn NOT BETWEEN 1 AND {MAX_POSITION})"""  # noqa: S608 - a constant


class StoreFinding(Struct, frozen=True):
    """One check. `fail`: something is broken; `warn`: something waits."""

    name: str
    verdict: str
    detail: str


def verify(path: Path, limit: int = 5) -> list[StoreFinding]:
    """Check a store. It reads every page of the file, and takes as long as that. Raises
    Misconfigured, StoreFailed.
    """
    with open_read_only(path) as db:
        return [
            _integrity(db),
            _schema(db),
            _journal(db),
            _warn_if_any(db, "received", "SELECT count(*) FROM events WHERE status = 'received'"),
            _warn_if_any(db, "unsent", "SELECT count(*) FROM outgoing WHERE stored_seq IS NULL"),
            _warn_if_any(
                db,
                "exhausted",
                (
                    "SELECT count(*) FROM events WHERE status = 'received' AND attempts >= "  # noqa: S608 - a number
                    f"{int(limit)}"
                ),
            ),
            _fail_if_any(db, "gaps", "SELECT max(turn) - count(turn) FROM events"),
            _fail_if_any(
                db,
                "orphans",
                "SELECT count(*) FROM outgoing WHERE place NOT IN (SELECT place FROM events)",
            ),
            _fail_if_any(db, "positions", POSITIONS),
        ]


def _integrity(db: sqlite3.Connection) -> StoreFinding:
    try:
        lines = [row[0] for row in db.execute("PRAGMA integrity_check(5)")]
    except sqlite3.DatabaseError as exc:
        lines = [str(exc)]
    return StoreFinding("integrity", OK if lines == ["ok"] else FAIL, "; ".join(lines))


def _schema(db: sqlite3.Connection) -> StoreFinding:
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        found = differences(db, int(version))
    except sqlite3.DatabaseError as exc:
        found = [str(exc)]
    return StoreFinding("schema", FAIL if found else OK, ", ".join(found))


def _journal(db: sqlite3.Connection) -> StoreFinding:
    (mode,) = db.execute("PRAGMA journal_mode").fetchone()
    return StoreFinding("durability", OK if mode == "wal" else FAIL, f"journal {mode}")


def _warn_if_any(db: sqlite3.Connection, name: str, query: str) -> StoreFinding:
    return _check_count(db, name, query, WARN)


def _fail_if_any(db: sqlite3.Connection, name: str, query: str) -> StoreFinding:
    return _check_count(db, name, query, FAIL)


def _check_count(db: sqlite3.Connection, name: str, query: str, verdict: str) -> StoreFinding:
    try:
        count = db.execute(query).fetchone()[0] or 0
    except sqlite3.DatabaseError as exc:
        return StoreFinding(name, FAIL, str(exc))
    return StoreFinding(name, verdict if count else OK, f"{count:,}")
