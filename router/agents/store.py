"""The event store's rows as values, and its statements, many rows at a time. Called from the
store's thread alone; what a row means is `batch`'s to say.

Everything that writes is called inside `transaction()`; the caller says what belongs together. The
state of an agent is the table `memory`: values by key, of which the store keeps small ones that
were used lately (`hot`). `write_rows`, which stands first, puts many rows into one statement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from itertools import chain, islice

import orjson
from msgspec import Struct

from router.agents.database import StoreFailed, StoreFile
from router.agents.schema import DEAD, MAX_POSITION
from router.core.errors import Misconfigured

# -- The rows of the store, as values.


class KnownEvent(Struct, frozen=True, gc=False):
    """The store's row of one key."""

    place: int
    status: str
    attempts: int


class NewEvent(Struct, frozen=True, gc=False):
    """A row to insert: one event, as it was received."""

    place: int
    key: str
    stream: str
    stream_seq: int
    subject: str
    content: bytes


class ResumableEvent(Struct, frozen=True, gc=False):
    """A row that was received and never applied: the process died, or the adapter failed."""

    place: int
    attempts: int
    content: bytes


class OutgoingRow(Struct, frozen=True, gc=False):
    """One outgoing message, as bytes: `id` is its Nats-Msg-Id."""

    place: int
    number: int
    id: str
    subject: str
    data: bytes
    traceparent: str | None


# stream, stream sequence, place, number: where an outgoing message is stored
Mark = tuple[str, int, int, int]
Memory = tuple[str, bytes | None]  # name, value as JSON; None: deleted


# -- The event store's statements, many rows at a time.


# -- The store.

UNSENT_PAGE = 500
# cached values of the state, and the largest size of one with its name
MAX_HOT_VALUES, MAX_HOT_BYTES = 4096, 4096


class Store:
    """One agent's rows in one open store. Raises Misconfigured for positions that no agent writes."""

    def __init__(self, database: StoreFile, agent: str) -> None:
        self.database = database
        self._agent = agent
        self._db = database.connection
        self._hot: dict[str, bytes] = {}  # as committed: this process alone writes the file
        with database.translate_errors():
            self._last_place = self._greatest("place", "SELECT max(place) FROM events")
            self._last_turn = self._greatest(
                "turn", "SELECT max(turn) FROM events WHERE turn IS NOT NULL"
            )

    def transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        return self.database.transaction()

    def next_place(self) -> int:
        self._last_place += 1
        return self._last_place

    # -- dedupe and persist ------------------------------------------------------------------------

    def find(self, keys: Sequence[str]) -> dict[str, KnownEvent]:
        """What is known of these keys; one query, however many."""
        with self.database.translate_errors():
            rows = self._db.execute(
                # CROSS: key by key, in the index; as `IN (SELECT …)` they would be sorted into a
                # table first.
                "SELECT idempotency_key, place, status, attempts FROM json_each(?) AS one"
                " CROSS JOIN events ON agent = ? AND idempotency_key = one.value",
                (orjson.dumps(keys).decode(), self._agent),
            ).fetchall()
        return {
            key: KnownEvent(place, status, attempts if type(attempts) is int else MAX_POSITION)
            for key, place, status, attempts in rows
        }

    def contents_of(self, places: Sequence[int]) -> dict[int, bytes]:
        """What was persisted of these events."""
        with self.database.translate_errors():
            return dict(
                self._db.execute(
                    (
                        "SELECT place, content FROM events WHERE place IN (SELECT value FROM "
                        "json_each(?))"
                    ),
                    (orjson.dumps(places).decode(),),
                ).fetchall()
            )

    def receive(self, rows: Sequence[NewEvent]) -> None:
        write_rows(
            self._db,
            "INSERT INTO events (place, idempotency_key, stream, stream_seq, subject, "
            "content, agent, status, attempts)"
            " SELECT *, ?, 'received', 1 FROM (VALUES {rows})",
            [
                (
                    row.place,
                    row.key,
                    row.stream,
                    row.stream_seq,
                    row.subject,
                    bytearray(row.content),
                )
                for row in rows
            ],
            self._agent,
        )

    def begin_again(self, places: Iterable[int]) -> None:
        """One more attempt: written down before it is made, for it may be the process' last."""
        self._db.executemany(
            "UPDATE events SET attempts = attempts + 1 WHERE place = ?",
            [(place,) for place in places],
        )

    def withdraw_attempts(self, places: Iterable[int]) -> None:
        """Take one attempt off each of these events."""
        self._db.executemany(
            "UPDATE events SET attempts = attempts - 1 WHERE place = ?",
            [(place,) for place in places],
        )

    def reset_dead(self, rows: Sequence[NewEvent]) -> None:
        """An operator sent a dead event again: store its new content as if it were new."""
        self._db.executemany(
            (
                "UPDATE events SET status = 'received', attempts = 1, stream = ?, stream_seq = "
                "?, subject = ?, content = ? WHERE place = ?"
            ),
            [(row.stream, row.stream_seq, row.subject, row.content, row.place) for row in rows],
        )

    # -- apply -------------------------------------------------------------------------------------

    def apply(
        self, places: Sequence[int], outgoing: Sequence[OutgoingRow], memory: Sequence[Memory]
    ) -> None:
        """Write everything that a batch did: status, messages, state."""
        for first, last in runs(places):
            statement = (
                "UPDATE events SET status = 'applied', turn = place + ? WHERE place BETWEEN ? AND ?"
            )
            self._db.execute(statement, (self._last_turn + 1 - first, first, last))
            self._last_turn += last - first + 1
        for name, _ in memory:
            # what a commit that fails has left is read from the file again
            self._hot.pop(name, None)
        write_rows(
            self._db,
            "INSERT INTO outgoing (place, number, id, subject, data, traceparent) VALUES {rows}",
            [
                (row.place, row.number, row.id, row.subject, bytearray(row.data), row.traceparent)
                for row in outgoing
            ],
        )
        write_rows(
            self._db,
            "INSERT INTO memory (name, value, agent) SELECT *, ? FROM (VALUES {rows}) WHERE true"
            " ON CONFLICT (agent, name) DO UPDATE SET value = excluded.value",
            [(name, bytearray(value)) for name, value in memory if value is not None],
            self._agent,
        )
        self._db.executemany(
            "DELETE FROM memory WHERE agent = ? AND name = ?",
            [(self._agent, name) for name, value in memory if value is None],
        )

    def on_commit(self, memory: Sequence[Memory]) -> None:
        """What `apply` wrote is committed."""
        self._keep_hot(memory)

    def read_state(self, name: str) -> bytes | None:
        hot = self._hot.pop(name, None)
        if hot is not None:
            self._hot[name] = hot  # the last to go
            return hot
        value = self._read(name)
        self._keep_hot([(name, value)])
        return value

    def _keep_hot(self, memory: Sequence[Memory]) -> None:
        self._hot.update(
            [
                (name, value)
                for name, value in memory
                if value is not None and len(name) + len(value) <= MAX_HOT_BYTES
            ]
        )
        # those read or written longest ago
        for name in list(islice(self._hot, max(0, len(self._hot) - MAX_HOT_VALUES))):
            del self._hot[name]

    def _read(self, name: str) -> bytes | None:
        try:  # once a message, from inside the author's code: a failure here is no message's fault
            row = self._db.execute(
                "SELECT value FROM memory WHERE agent = ? AND name = ?", (self._agent, name)
            ).fetchone()
        except sqlite3.Error as exc:
            raise StoreFailed(self.database.path, exc) from exc
        return row[0] if row is not None else None

    # -- afterwards --------------------------------------------------------------------------------

    def mark(self, marks: Sequence[Mark]) -> None:
        """Record where outgoing messages are stored."""
        write_rows(
            self._db,
            "WITH mark (stream, seq, place, number) AS (VALUES {rows})"
            " UPDATE outgoing SET stored_stream = mark.stream, stored_seq = mark.seq"
            " FROM mark WHERE outgoing.place = mark.place AND outgoing.number = mark.number",
            marks,
        )

    def mark_dead(self, places: Sequence[int]) -> None:
        """Their dead letters are stored."""
        self._db.executemany(
            f"UPDATE events SET status = '{DEAD}' WHERE place = ? AND status = 'received'",  # noqa: S608 - a constant
            [(place,) for place in places],
        )

    # -- what is left ------------------------------------------------------------------------------

    def list_resumable(self, limit: int) -> list[ResumableEvent]:
        """Received, not applied, and with attempts left; in the order of their arrival."""
        with self.database.translate_errors():
            rows = self._db.execute(
                # The planner would take the agent's index, and look at every event there is.
                "SELECT place, attempts, content FROM events INDEXED BY events_received"
                " WHERE status = 'received' AND agent = ? AND attempts < ? ORDER BY place",
                (self._agent, limit),
            ).fetchall()
        return [ResumableEvent(*row) for row in rows]

    def list_unsent_of(self, places: Sequence[int]) -> list[OutgoingRow]:
        """Messages of these events that may not be in any stream yet."""
        with self.database.translate_errors():
            rows = self._db.execute(
                "SELECT place, number, id, subject, data, traceparent FROM outgoing"
                " WHERE stored_seq IS NULL AND place IN (SELECT value FROM json_each(?)) "
                "ORDER BY place, number",
                (orjson.dumps(places).decode(),),
            ).fetchall()
        return [OutgoingRow(*row) for row in rows]

    def list_unsent(self, place: int, number: int) -> list[OutgoingRow]:
        """A page of all such messages, behind this one."""
        with self.database.translate_errors():
            rows = self._db.execute(
                "SELECT place, number, id, subject, data, traceparent FROM outgoing"
                " WHERE stored_seq IS NULL AND (place, number) > (?, ?) ORDER BY place, "
                "number LIMIT ?",
                (place, number, UNSENT_PAGE),
            ).fetchall()
        return [OutgoingRow(*row) for row in rows]

    def _greatest(self, name: str, query: str) -> int:
        """Raises Misconfigured where no event could follow: SQLite counts to 2^63 - 1."""
        greatest = self._db.execute(query).fetchone()[0] or 0
        if not isinstance(greatest, int) or not 0 <= greatest <= MAX_POSITION:
            raise Misconfigured(
                "store",
                (
                    f"the greatest {name} of {self.database.path} is none that an agent gives: "
                    "restore a copy"
                ),
            )
        return greatest


# -- Many rows in one statement.
#
# `executemany` releases the interpreter's lock once a row, and a busy event loop keeps it for a
# switch interval each time: with many rows in one statement the store's thread asks for it a
# hundredth as often. Pass bytes as a `bytearray`: for every `bytes` the sqlite3 module looks
# for an adapter first, which costs three thousand instructions.

ROWS_PER_STATEMENT = 64
Row = tuple[object, ...]


def write_rows(db: sqlite3.Connection, statement: str, rows: Sequence[Row], *same: object) -> None:
    """`statement` holds `{rows}`, which becomes `(?, ?), (?, ?)`; `same`: the parameters in front
    of them, for all rows.
    """
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        handful = rows[start : start + ROWS_PER_STATEMENT]
        db.execute(
            _with_rows(statement, len(handful), len(handful[0])),
            (*same, *chain.from_iterable(handful)),
        )


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
