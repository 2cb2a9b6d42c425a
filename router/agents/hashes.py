"""Hashes of a store: the same content gives the same hash, in whatever order it was delivered
(docs/reference/requirements.md#mf-11).

    state     every event's content, sorted by (stream, sequence), and by key where a stream was
              made anew: redeliveries and
              another order change nothing
    log       the same in the order of arrival
    effects   the results of applying: outgoing messages and the agent's state

No attempt, status or local clock goes into any of them.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable

from msgspec import Struct

_STATE = (
    "SELECT stream, stream_seq, subject, content FROM events ORDER BY stream, stream_seq, "
    "idempotency_key"
)
_LOG = "SELECT stream, stream_seq, subject, content FROM events ORDER BY place"
_OUTGOING = "SELECT id, subject, data FROM outgoing ORDER BY id"
_MEMORY = "SELECT agent, name, value FROM memory ORDER BY agent, name"


class Hashes(Struct, frozen=True):
    """As hex."""

    events: int
    state: str
    log: str
    effects: str


def hashes_of(db: sqlite3.Connection) -> Hashes:
    """One pass for each; memory use does not grow with the store."""
    (events,) = db.execute("SELECT count(*) FROM events").fetchone()
    effects = hashlib.sha256()
    for query in (_OUTGOING, _MEMORY):
        _feed(effects, db.execute(query))
    return Hashes(events, _hash(db, _STATE), _hash(db, _LOG), effects.hexdigest())


def _hash(db: sqlite3.Connection, query: str) -> str:
    whole = hashlib.sha256()
    _feed(whole, db.execute(query))
    return whole.hexdigest()


def _feed(whole: hashlib._Hash, rows: Iterable[tuple[str | int | bytes, ...]]) -> None:
    for row in rows:
        for cell in row:
            data = cell if isinstance(cell, bytes) else str(cell).encode()
            # its length first: no two rows can have the same bytes
            whole.update(b"%d:" % len(data))
            whole.update(data)
