"""The events of a store applied again, from nothing, to a fresh one: the hashes of both are the
same, or the agent is not deterministic.

Rule: docs/reference/requirements.md#mf-11.

    a store ──> its events, in the order in which they were applied ──> the adapter ──> a fresh store

Nothing is published. What was received and never applied is copied as it is, so that both stores
hold the same content.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from router.agents.adapter import AgentAdapter, Context, check_adapter, read_messages
from router.agents.database import StoreFile, open_read_only
from router.agents.envelope import stored_envelope
from router.agents.outgoing import OutputRules, build_outgoing_row
from router.agents.state import StateTransaction
from router.agents.store import NewEvent, OutgoingRow, Store
from router.core.errors import Misconfigured, RouterError
from router.core.user_functions import contain_exit, require_finished, text_of

# -- Hashes of a store: the same content gives the same hash, in whatever order it was delivered
# (docs/reference/requirements.md#mf-11).
#
#     state     every event's content, sorted by (stream, sequence), and by key where a stream was
#               made anew: redeliveries and
#               another order change nothing
#     log       the same in the order of arrival
#     effects   the results of applying: outgoing messages and the agent's state
#
# No attempt, status or local clock goes into any of them.


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


# -- The events of a store applied again, from nothing, to a fresh one: the same hashes, or the
# agent is not deterministic.


EVENTS_PER_COMMIT = 500
ALL_SUBJECTS = OutputRules(lambda _: True, 2**62)  # nothing is sent
_EVENTS = (
    "SELECT place, idempotency_key, stream, stream_seq, subject, content, turn, attempts "
    "FROM events WHERE agent = ?"
    " ORDER BY turn IS NULL, turn, place"
)

Row = tuple[int, str, str, int, str, bytes, int | None, int]
Progress = Callable[[int, int], None]  # events done, events in all


class ReplayDiverged(RouterError):
    """The agent failed at an event that it had applied before."""

    code = "diverged"


class ReplayResult(Struct, frozen=True):
    """The hashes of the store, and those after applying its events again."""

    stored: Hashes
    replayed: Hashes

    @property
    def is_same(self) -> bool:
        return self.stored == self.replayed


def replay(
    adapter: AgentAdapter, source: Path, into: Path, progress: Progress = lambda *_: None
) -> ReplayResult:
    """Raises Misconfigured when there is a file at `into`, StoreFailed, ReplayDiverged. The source
    is only read.
    """
    check_adapter(adapter)
    if into.exists():
        raise Misconfigured("into", f"{into} exists: a replay begins from nothing")
    with open_read_only(source) as db:
        stored = hashes_of(db)
        fresh = StoreFile(into, is_durable=False)
        try:
            _replay(adapter, db, Store(fresh, adapter.name), stored.events, progress)
            return ReplayResult(stored, hashes_of(fresh.connection))
        finally:
            fresh.close()


def _replay(
    adapter: AgentAdapter, db: sqlite3.Connection, store: Store, count: int, progress: Progress
) -> None:
    rows, done = db.execute(_EVENTS, (adapter.name,)), 0
    while page := rows.fetchmany(EVENTS_PER_COMMIT):
        with store.transaction():
            store.receive([NewEvent(*row[:6]) for row in page])
            _apply(adapter, store, [row for row in page if row[6] is not None])
        done += len(page)
        progress(done, count)


def _apply(adapter: AgentAdapter, store: Store, page: Sequence[Row]) -> None:
    state = StateTransaction(store.read_state)
    messages = [message for row in page for message in _apply_one(adapter, state, row)]
    store.apply([row[0] for row in page], messages, state.rows)


def _apply_one(adapter: AgentAdapter, state: StateTransaction, row: Row) -> list[OutgoingRow]:
    place, key, _, _, _, content, _, attempts = row
    envelope = stored_envelope(content)
    try:
        with contain_exit:
            require_finished("receive", adapter.receive(envelope))  # type: ignore[func-returns-value]  # an author may do so
            answers = read_messages(
                adapter.apply(Context(adapter.name, key, state, attempts), envelope)
            )
        messages = [
            build_outgoing_row(
                adapter.name, envelope, message, place=place, number=number, rules=ALL_SUBJECTS
            )
            for number, message in enumerate(answers)
        ]
    except Exception as exc:  # the author's code may raise anything
        raise ReplayDiverged(
            f"the agent applied {key!r} before, and fails at it now: {type(exc).__name__}: "
            f"{text_of(exc)}"
        ) from exc
    state.commit()
    return messages
