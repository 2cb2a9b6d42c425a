"""Add an event to the outbox in the service's own transaction: the relay publishes what it commits,
as subject, headers and body, and nothing that it rolls back.

    async with connection.transaction():
        await connection.execute("UPDATE orders …") await outbox.add(connection,
        OutboxEvent(outbox.new_id(), "order", "o-17", "order_paid", {"amount": 5}))

A synchronous psycopg connection works alike, without `await`; SQLAlchemy hands over the one inside
it (`WAYS`). With any other driver the service inserts the row itself:

    INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
    VALUES ('0198c0de-…', 'order', 'o-17', 'order_paid', '{"amount": 5}')

Time: the database sets `occurred_at` unless the event names one. Clocks differ, so the table
accepts an event up to a minute ahead of its transaction, and the relay publishes it when its time
has come (POL-047-002). The table's CHECK refuses one that is further ahead: `add` raises
FutureEvent; in a pipeline, where the server answers at the end, the driver raises its own error
there. Nothing here depends on a count of rows, which a pipeline reports too late.

Order: the database draws a position at the insert, and the relay publishes events of one aggregate
by it. A transaction that locks the aggregate before it adds is published in the order of the lock
(docs/how-to/use-the-mailbox.md#order). `occurred_at` orders nothing.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from inspect import isawaitable
from itertools import count
from typing import Any, Final, LiteralString, Protocol, overload
from uuid import UUID

from router.contracts.codec import MAX_PAYLOAD_BYTES, read_value
from router.contracts.malformed import Malformed
from router.core.errors import Poison
from router.core.message import Effect
from router.mailbox.entities import EventSubject, NatsMsgId, OutboxEvent, json_text
from router.mailbox.policies import (
    NOT_FROM_THE_FUTURE,
    VALID_OUTBOX,
    FutureEvent,
    InvalidEntity,
    check_outbox,
)

# -- The event and its row.

CHANNEL: Final = "outbox_events"

# the table's own constraint: the database's clock decides (POL-047-002), not the service's
IN_TIME: Final = "chk_occurred_not_future"
ADD: Final = """
    INSERT INTO outbox_events
      (id, aggregate_type, aggregate_id, event_type, event_version, payload, occurred_at, correlation_id, causation_id)
    VALUES (%s::uuid, %s::text, %s::text, %s::text, %s::int, %s::jsonb, coalesce(%s::timestamptz, now()), %s::uuid, %s::uuid)"""
MAX_EVENT_BYTES: Final = 8 * 1024 * 1024  # as the setting max_payload_bytes allows
WAKE: Final = "SELECT pg_notify(%s, '')"

# not the text that spells it, behind an even number of backslashes more
_NULL_CHARACTER = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_ids = count(int.from_bytes(os.urandom(4)) >> 1)
_last_ms = 0


class ExecuteResult(Protocol):
    """A cursor, by the one attribute that distinguishes it from an awaitable; nothing reads it."""

    @property
    def rowcount(self) -> int: ...


class SyncConnection(Protocol):
    """psycopg.Connection, or a class that behaves like it."""

    def execute(self, query: LiteralString, params: Sequence[object], /) -> ExecuteResult: ...


class AsyncConnection(Protocol):
    """psycopg.AsyncConnection, or a class that behaves like it."""

    def execute(
        self, query: LiteralString, params: Sequence[object], /
    ) -> Awaitable[ExecuteResult]: ...


@overload
def add(
    connection: AsyncConnection,
    event: OutboxEvent,
    *,
    wake: bool = False,
    max_bytes: int = MAX_PAYLOAD_BYTES,
) -> Coroutine[Any, Any, None]: ...
@overload
def add(
    connection: SyncConnection,
    event: OutboxEvent,
    *,
    wake: bool = False,
    max_bytes: int = MAX_PAYLOAD_BYTES,
) -> None: ...


def add(
    connection: AsyncConnection | SyncConnection,
    event: OutboxEvent,
    *,
    wake: bool = False,
    max_bytes: int = MAX_PAYLOAD_BYTES,
) -> Coroutine[Any, Any, None] | None:
    """Insert an event in the transaction that is open on this connection
    (docs/reference/requirements.md#sd-2).

    `wake`: tell a relay that listens (`mailbox.relay.listen`); it costs every commit a lock of the
    whole database. `max_bytes`: of the payload, as the `max_payload_bytes` of the inboxes that take
    it; 8 MiB at most. 64 levels, and the aggregate's type and id 512 characters each. Raises
    PolicyViolated: InvalidEntity (INVALID_OUTBOX), FutureEvent (FUTURE_EVENT). What else the driver
    raises is the caller's own to know.
    """
    require_connection(connection)
    check_outbox(event)
    with _translate_future_event(event):
        done = connection.execute(ADD, _parameters(event, max_bytes))
    if isawaitable(done):
        return _finish_adding(connection, event, done, wake)  # type: ignore[arg-type]
    if wake:
        connection.execute(WAKE, (CHANNEL,))
    return None


def new_id() -> UUID:
    """Return a UUIDv7: it rises with time, and within this process with every call."""
    global _last_ms  # noqa: PLW0603 - one clock for the process
    _last_ms = max(_last_ms, time.time_ns() // 1_000_000)
    # spread over rand_a and the head of rand_b, which sort after the time
    rising = next(_ids) & 0xFFFF_FFFF
    _last_ms += rising == 0
    low = 0x8 << 60 | (rising & 0xF_FFFF) << 40 | int.from_bytes(os.urandom(5))
    return UUID(int=_last_ms << 80 | 0x7 << 76 | (rising >> 20) << 64 | low)


async def _finish_adding(
    connection: AsyncConnection, event: OutboxEvent, done: Awaitable[ExecuteResult], wake: bool
) -> None:
    with _translate_future_event(event):
        await done
    if wake:
        await connection.execute(WAKE, (CHANNEL,))


@contextmanager
def _translate_future_event(event: OutboxEvent) -> Iterator[None]:
    """Raise FutureEvent when the table's CHECK refuses the event. A pipeline may report an event
    that was added earlier.
    """
    try:
        yield
    except Exception as exc:  # of any driver; only the one error is translated
        if getattr(getattr(exc, "diag", None), "constraint_name", None) != IN_TIME:
            raise
        cause = (
            f"event {event.id}, or in a pipeline one added before it, is more than a minute "
            "ahead of the database's clock"
        )
        raise FutureEvent(NOT_FROM_THE_FUTURE, cause) from None


def _parameters(event: OutboxEvent, max_bytes: int) -> tuple[object, ...]:
    try:
        payload = json_text(event.payload).decode()
        # Read it as an inbox does: what an inbox would refuse fails here, where the service can
        # mend it.
        read_value(payload.encode(), min(max_bytes, MAX_EVENT_BYTES))
    except (TypeError, ValueError) as exc:
        raise InvalidEntity(VALID_OUTBOX, "payload must be a JSON value") from exc
    except Malformed as exc:
        raise InvalidEntity(
            VALID_OUTBOX, f"payload must be JSON that an inbox takes: {exc}"
        ) from exc
    if "\\u0000" in payload and _NULL_CHARACTER.search(payload):
        raise InvalidEntity(
            VALID_OUTBOX, "payload holds the character U+0000, which JSONB does not take"
        )
    named = (
        event.id,
        event.aggregate_type,
        event.aggregate_id,
        event.event_type,
        event.event_version,
    )
    return (*named, payload, event.occurred_at, event.correlation_id, event.causation_id)


# -- Connections that `add` refuses, each with the way to do it.
#
#     SQLAlchemy          wraps the driver's connection, and hands it over within a transaction
#     asyncpg, psycopg2   write parameters otherwise: the service inserts the row itself
#
# The class and its bases decide, never a trial: half a statement would end the service's
# transaction.

OWN_INSERT: Final = (
    "insert the row by its own SQL: INSERT INTO outbox_events (id, aggregate_type, "
    "aggregate_id, event_type, payload) VALUES (…), "
    "id from outbox.new_id()"
)
SYNC: Final = (
    "within its transaction, outbox.add({}.driver_connection, event), with the dialect "
    "postgresql+psycopg"
)
ASYNC: Final = (
    "within its transaction, await outbox.add((await "
    "{}.get_raw_connection()).driver_connection, event), with postgresql+psycopg"
)
WAYS: Final = {
    ("sqlalchemy", "Session"): SYNC.format("session.connection().connection"),
    ("sqlalchemy", "scoped_session"): SYNC.format("session.connection().connection"),
    ("sqlalchemy", "Connection"): SYNC.format("connection.connection"),
    ("sqlalchemy", "AsyncSession"): ASYNC.format("(await session.connection())"),
    ("sqlalchemy", "async_scoped_session"): ASYNC.format("(await session.connection())"),
    ("sqlalchemy", "AsyncConnection"): ASYNC.format("connection"),
    ("sqlalchemy", ""): SYNC.format("connection.connection"),
    ("asyncpg", ""): OWN_INSERT,
    ("psycopg2", ""): OWN_INSERT,
    ("sqlite3", ""): "the outbox is a table of PostgreSQL",
}


def require_connection(connection: Any) -> None:
    """Raises TypeError for another library's connection, or for no connection; the text names the
    way to do it.
    """
    if (refusal := _refusal_of(type(connection))) is not None:  # type: ignore[arg-type]  # every class is hashable
        raise TypeError(refusal)


@lru_cache(maxsize=256)
def _refusal_of(kind: type) -> str | None:
    for base in kind.__mro__:
        library = base.__module__.partition(".")[0]
        if way := WAYS.get((library, base.__name__)) or WAYS.get((library, "")):
            return (
                f"outbox.add takes a connection of psycopg, not {library}'s {base.__name__}: {way}"
            )
    if not hasattr(kind, "execute"):
        return f"outbox.add takes a connection of psycopg, not {kind.__name__}"
    return None


# -- An outbox event as it travels: subject, headers, body (docs/reference/requirements.md#x28).
#
# subject   {context}.event.{event_type}.v{event_version}
# headers   Nats-Msg-Id = the event's id; Event-Type, Event-Version, Occurred-At, Correlation-Id,
#           Causation-Id
# body      the payload alone, as the database tells it


ROOM_FOR_HEADERS = 1024  # bytes; ours are shorter


class EventEncoder:
    """Encodes the events of one context. `max_payload`: bytes that the connection accepts; `most`:
    bytes of them that a body may have.
    """

    def __init__(self, context: str, max_payload: int) -> None:
        self._context = context
        self.most = max_payload - ROOM_FOR_HEADERS
        self._subject = lru_cache(maxsize=1024)(_subject)

    def effect_of(self, event: OutboxEvent) -> Effect:
        """Raises Poison if this event can never be published as it is."""
        data = json_text(event.payload)
        if len(data) > self.most:
            raise Poison(f"payload of {len(data)} bytes, the connection takes {self.most}")
        subject = self._subject(self._context, event.event_type, event.event_version)
        return Effect(subject, data, NatsMsgId.from_event(event).value, _headers(event))


def _subject(context: str, event_type: str, event_version: int) -> str:
    try:
        return EventSubject.from_parts(context, event_type, event_version).value
    except ValueError as exc:
        raise InvalidEntity(
            VALID_OUTBOX, f"event_type and event_version make no subject: it {exc}"
        ) from exc


def _headers(event: OutboxEvent) -> dict[str, str]:
    headers = {"Event-Type": event.event_type, "Event-Version": str(event.event_version)}
    if event.occurred_at is not None:
        # our sessions use UTC
        headers["Occurred-At"] = event.occurred_at.isoformat()[: -len("+00:00")] + "Z"
    if event.correlation_id is not None:
        headers["Correlation-Id"] = str(event.correlation_id)
    if event.causation_id is not None:
        headers["Causation-Id"] = str(event.causation_id)
    return headers
