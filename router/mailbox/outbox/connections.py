"""The connections that `outbox.add` works with: psycopg's, and classes that behave like them. It refuses others and names the way to do it.

    SQLAlchemy          wraps the driver's connection, and hands it over within a transaction
    asyncpg, psycopg2   write parameters otherwise: the service inserts the row itself

The class and its bases decide, never a trial: half a statement would end the service's transaction.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

INSERT: Final = (
    "insert the row by its own SQL: INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload) VALUES (…), "
    "id from outbox.new_id()"
)
SYNC: Final = "within its transaction, outbox.add({}.driver_connection, event), with the dialect postgresql+psycopg"
ASYNC: Final = "within its transaction, await outbox.add((await {}.get_raw_connection()).driver_connection, event), with postgresql+psycopg"
WAYS: Final = {
    ("sqlalchemy", "Session"): SYNC.format("session.connection().connection"),
    ("sqlalchemy", "scoped_session"): SYNC.format("session.connection().connection"),
    ("sqlalchemy", "Connection"): SYNC.format("connection.connection"),
    ("sqlalchemy", "AsyncSession"): ASYNC.format("(await session.connection())"),
    ("sqlalchemy", "async_scoped_session"): ASYNC.format("(await session.connection())"),
    ("sqlalchemy", "AsyncConnection"): ASYNC.format("connection"),
    ("sqlalchemy", ""): SYNC.format("connection.connection"),
    ("asyncpg", ""): INSERT,
    ("psycopg2", ""): INSERT,
    ("sqlite3", ""): "the outbox is a table of PostgreSQL",
}


def require_connection(connection: Any) -> None:
    """Raises TypeError for another library's connection, or for no connection; the text names the way to do it."""
    if (refusal := _refusal_of(type(connection))) is not None:  # type: ignore[arg-type]  # every class is hashable
        raise TypeError(refusal)


@lru_cache(maxsize=256)
def _refusal_of(kind: type) -> str | None:
    for base in kind.__mro__:
        library = base.__module__.partition(".")[0]
        if way := WAYS.get((library, base.__name__)) or WAYS.get((library, "")):
            return f"outbox.add takes a connection of psycopg, not {library}'s {base.__name__}: {way}"
    if not hasattr(kind, "execute"):
        return f"outbox.add takes a connection of psycopg, not {kind.__name__}"
    return None
