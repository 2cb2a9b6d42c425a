"""What a person sees of a store: its newest events with their progress, and whether it is whole and
contradicts itself nowhere.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import asdict

from router.agents import schema
from router.agents.database import open_read_only
from router.agents.schema import MAX_POSITION, differences
from router.contracts.exact_json import load_written
from router.core.errors import Misconfigured

EVENT_STATUSES = (schema.RECEIVED, schema.APPLIED, schema.DEAD)
_QUERY = (
    "SELECT place, stream, stream_seq, subject, idempotency_key, status, attempts, content,"
    " (SELECT count(stored_seq) FROM outgoing WHERE outgoing.place = events.place),"
    " (SELECT count(*) - count(stored_seq) FROM outgoing WHERE outgoing.place = events.place)"
    " FROM events WHERE (:status IS NULL OR status = :status) AND (:key IS NULL OR "
    "idempotency_key = :key) ORDER BY place DESC LIMIT :limit"
)


class EventFilter(Struct, frozen=True):
    """None: any."""

    status: str | None = None
    key: str | None = None


class ListedEvent(Struct, frozen=True):
    """One event. `sent`, `unsent`: its outgoing messages with and without a publish ack."""

    place: int
    stream: str
    stream_seq: int
    subject: str
    key: str
    status: str
    attempts: int
    content: bytes
    sent: int
    unsent: int

    @property
    def type(self) -> str:
        return str(orjson.loads(self.content)["type"])

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "content": load_written(self.content)}


def list_newest_events(path: Path, wanted: EventFilter, limit: int) -> list[ListedEvent]:
    """Raises Misconfigured, StoreFailed."""
    if wanted.status not in (None, *EVENT_STATUSES):
        raise Misconfigured("status", f"should be one of {', '.join(EVENT_STATUSES)}")
    with open_read_only(path) as db:
        return [
            ListedEvent(*row)
            for row in db.execute(
                _QUERY, {"status": wanted.status, "key": wanted.key, "limit": limit}
            )
        ]


# -- A store looked over: is the file whole, does anything wait, does anything contradict itself.
#
# integrity     SQLite's own check of every page and index
# schema        tables, indexes, triggers and views are the store's own, and no other is there
# durability    a commit reaches the disk: the journal is a WAL
# received      events that are not applied: a crash, or a failing adapter
# unsent        outgoing messages without a publish ack
# exhausted     events that were begun as often as allowed
# gaps          turns that are missing: an event was applied, and its row is gone
# orphans       outgoing messages whose event is gone
# positions     places, turns and attempts that no agent gives: an agent refuses such a store, or
#               stumbles over it


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
        faults = differences(db, int(version))
    except sqlite3.DatabaseError as exc:
        faults = [str(exc)]
    return StoreFinding("schema", FAIL if faults else OK, ", ".join(faults))


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
