"""The event store's tables, version by version: a store of an older version is brought forward when
it is opened, and one with anything beside its schema is refused.

    events     one row for each idempotency key: its content, how far it has come, when it was
               applied (`turn`)
    outgoing   what applying it sent; `stored_seq` is the PubAck's, NULL = it may not stand in any
               stream yet
    memory     the agent's state
    facts      the store's own id

A message is `received` once it is here, `applied` once its effects are, `dead` once its dead letter
is stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache

APPLICATION_ID = 0x4D465354  # "MFST": another program's SQLite file is told from ours

# the greatest place or turn that another may follow: a store gets there by no number of events
MAX_POSITION = 2**62

RECEIVED = "received"
APPLIED = "applied"
DEAD = "dead"

# The check of `status` is no IN of three: SQLite would make a table of them for every row that is
# written.
_FIRST = """
CREATE TABLE events (
  place INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  stream TEXT NOT NULL,
  stream_seq INTEGER NOT NULL,
  subject TEXT NOT NULL,
  content BLOB NOT NULL,
  status TEXT NOT NULL CHECK (status = 'received' OR status = 'applied' OR status = 'dead'),
  attempts INTEGER NOT NULL,
  turn INTEGER,
  UNIQUE (agent, idempotency_key)
);
CREATE INDEX events_received ON events (place) WHERE status = 'received';
CREATE UNIQUE INDEX events_turn ON events (turn) WHERE turn IS NOT NULL;
CREATE TABLE outgoing (
  place INTEGER NOT NULL REFERENCES events (place),
  number INTEGER NOT NULL,
  id TEXT NOT NULL,
  subject TEXT NOT NULL,
  data BLOB NOT NULL,
  traceparent TEXT,
  stored_stream TEXT,
  stored_seq INTEGER,
  PRIMARY KEY (place, number)
) WITHOUT ROWID;
CREATE INDEX outgoing_unsent ON outgoing (place, number) WHERE stored_seq IS NULL;
CREATE TABLE memory (
  agent TEXT NOT NULL,
  name TEXT NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (agent, name)
) WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

MIGRATIONS: tuple[str, ...] = (_FIRST,)  # the n-th makes version n of version n - 1


# -- Check that a store's schema is ours, and nothing else: tables, indexes, triggers, views, word
# for word.
#
# A trigger that was added to the file runs inside the agent's own commits, and its writes count
# as the agent's. So an agent refuses to open a store that holds anything beside its schema, and
# `router agent verify` names what it holds.


MAX_REPORTED = 5
# ANALYZE makes those
_OBJECTS = (
    "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT IN ('sqlite_stat1', "
    "'sqlite_stat4')"
)

Object = tuple[str, str, str, str]  # type, name, table, its SQL with single spaces


def differences(connection: sqlite3.Connection, version: int) -> Sequence[str]:
    """Objects that are not ours, and ours that are missing or changed; at most MOST_TOLD of them."""
    found, ours = _objects(connection), _expected_objects(MIGRATIONS[:version])
    strange = [f"{kind} {_format_name(name)}" for kind, name, _, _ in sorted(found - ours)]
    missing = [
        f"no {kind} {name}"
        for kind, name, _, _ in sorted(ours - found)
        if f"{kind} {name}" not in strange
    ]
    return [*strange, *missing][:MAX_REPORTED]


def _format_name(name: str) -> str:
    return name if name.isidentifier() and len(name) <= 64 else ascii(name[:64])


@cache
def _expected_objects(migrations: tuple[str, ...]) -> frozenset[Object]:
    """The objects that these migrations make in an empty file."""
    connection = sqlite3.connect(":memory:")
    try:
        for script in migrations:
            connection.executescript(script)
        return _objects(connection)
    finally:
        connection.close()


def _objects(connection: sqlite3.Connection) -> frozenset[Object]:
    return frozenset(
        (str(kind), str(name), str(table), " ".join(str(text or "").split()))
        for kind, name, table, text in connection.execute(_OBJECTS)
    )
