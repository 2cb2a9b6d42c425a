"""The event store's tables, version by version. A store of an older version is brought forward when
it is opened.

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
