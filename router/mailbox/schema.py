"""The tables as versions: `mailbox_migrations` records each applied version, so none is applied
twice.

    migrations/0001_tables.sql   the specification's two tables; existing ones that a service made
                                 are taken over
    migrations/0002_relay.sql    the tables that the relay keeps beside them
    migrations/0003_inbox.sql    the durable that an inbox belongs to
    migrations/0004_backlog.sql  the function that counts unpublished events
    migrations/0005_long_names.sql  waiting rows may have names of any length
    migrations/0006_publish_acks.sql  the new name of the table of publish acks
    migrations/0007_order.sql    the index by which the relay reads events in their order

`migrate` runs in one transaction under one lock, so two that run at once take turns. `check` only
reads. A role that owns nothing but its schema is enough. Both first look whether the two specified
tables, where they exist, are as specified.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from msgspec import Struct

from router.core.errors import Misconfigured
from router.mailbox.errors import DatabaseRefused
from router.mailbox.postgres import Database, Session

# -- The migrations.

MIGRATION_LOCK = 0x5D5047  # in this database


class Migration(Struct, frozen=True):
    """One file of `migrations/`."""

    version: int
    name: str
    text: str


def migrations() -> list[Migration]:
    """All of them, oldest first."""
    return sorted(_read_migrations(), key=lambda migration: migration.version)


async def migrate(database: Database, schema: str) -> list[Migration]:
    """Apply the missing versions and return them.

    Raises DatabaseUnavailable, and Misconfigured if the database refuses, or holds other tables
    under these names.
    """
    async with database.transaction() as session:
        await session.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        await _make_schema(session, schema)
        await session.script(
            "CREATE TABLE IF NOT EXISTS mailbox_migrations (version INT PRIMARY KEY, name "
            "TEXT, applied_at TIMESTAMPTZ DEFAULT NOW())"
        )
        await require_specified(session)
        wanted = await _find_missing(session)
        for migration in wanted:
            await _apply(session, migration)
            await session.execute(
                "INSERT INTO mailbox_migrations (version, name) VALUES (%s, %s)",
                (migration.version, migration.name),
            )
        return wanted


async def _make_schema(session: Session, schema: str) -> None:
    """Create the schema only where it is missing: the statement needs a right on the database even
    where it would do nothing.
    """
    if await session.fetch_one(
        "SELECT to_regnamespace(%s) IS NOT NULL", (f'"{schema}"',), make=bool
    ):
        return
    role = await session.fetch_one("SELECT current_user::text", make=str)
    try:
        await session.script(f'CREATE SCHEMA "{schema}"')
    except DatabaseRefused as exc:
        remedy = f'CREATE SCHEMA "{schema}" AUTHORIZATION "{role}"'
        raise Misconfigured(
            "mailbox.db_schema",
            f"{schema} is missing and this role may not make it: let an owner say {remedy}",
        ) from exc


async def _apply(session: Session, migration: Migration) -> None:
    try:
        await session.script(migration.text)
    except DatabaseRefused as exc:
        raise Misconfigured(
            "mailbox.dsn",
            f"{migration.name}: {exc}; the role must own the schema and the tables in it",
        ) from exc


async def check(database: Database) -> list[Migration]:
    """Return what `migrate` would apply. Raises DatabaseUnavailable, and Misconfigured if a table
    is another than ours.
    """
    async with database.transaction() as session:
        await require_specified(session)
        is_there = await session.fetch_one(
            "SELECT to_regclass('mailbox_migrations') IS NOT NULL", make=bool
        )
        return await _find_missing(session) if is_there else migrations()


async def require(database: Database) -> None:
    """Raises Misconfigured if the tables are missing, others, or older than this package."""
    if missing := await check(database):
        raise Misconfigured(
            "mailbox.schema",
            f"{', '.join(migration.name for migration in missing)} not applied: "
            "run `router mailbox migrate`",
        )


async def _find_missing(session: Session) -> list[Migration]:
    applied = set(await session.fetch("SELECT version FROM mailbox_migrations", make=int))
    return [migration for migration in migrations() if migration.version not in applied]


def _read_migrations() -> Iterator[Migration]:
    for file in files("router.mailbox").joinpath("migrations").iterdir():
        if file.name.endswith(".sql"):
            name = file.name.removesuffix(".sql")
            yield Migration(int(name.split("_")[0]), name, file.read_text())


# -- The two specified tables, with these columns and no other
# (docs/reference/requirements.md#sd-1).
#
# outbox_events    docs/reference/requirements.md#sd-26        inbox_messages
# docs/reference/requirements.md#sd-27
#
# A service may have made them by the specification's SQL; anything else under their names is
# named, and left alone. The column `position` is ours (docs/reference/requirements.md#x27): a
# table without it is refused with the statement that adds it. Sessions that draw positions
# ahead of their use (a cache) would break the order, so that is refused, too.

SCHEMA_SETTING: Final = "mailbox.db_schema"
SPECIFIED_TABLES: Final = {
    "outbox_events": {
        "id": "uuid NOT NULL",
        "aggregate_type": "text NOT NULL",
        "aggregate_id": "text NOT NULL",
        "event_type": "text NOT NULL",
        "event_version": "integer NOT NULL",
        "payload": "jsonb NOT NULL",
        "occurred_at": "timestamp with time zone NOT NULL",
        "correlation_id": "uuid",
        "causation_id": "uuid",
        "published_at": "timestamp with time zone",
        "publish_attempts": "integer NOT NULL",
        "publish_error": "text",
        "position": "bigint NOT NULL GENERATED ALWAYS AS IDENTITY",
    },
    "inbox_messages": {
        "message_id": "uuid NOT NULL",
        "subject": "text NOT NULL",
        "received_at": "timestamp with time zone NOT NULL",
        "processed_at": "timestamp with time zone",
        "attempts": "integer NOT NULL",
        "last_error": "text",
    },
}

SELECT_COLUMNS: Final = """
    SELECT attname::text, format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END
           || CASE attidentity WHEN 'a' THEN ' GENERATED ALWAYS AS IDENTITY' WHEN 'd' THEN ' GENERATED BY DEFAULT AS IDENTITY' ELSE '' END
    FROM pg_attribute WHERE attrelid = to_regclass(quote_ident(current_schema()) || '.' || %s) AND attnum > 0 AND NOT attisdropped"""

IS_RISING: Final = """
    SELECT seqcache = 1 AND seqincrement > 0 AND NOT seqcycle FROM pg_sequence
    WHERE seqrelid = pg_get_serial_sequence(quote_ident(current_schema()) || '.outbox_events', 'position')::regclass"""
SELECT_SCHEMA: Final = "SELECT quote_ident(current_schema())"
ADD_POSITION: Final = "ADD COLUMN position BIGINT GENERATED ALWAYS AS IDENTITY"
MEND_POSITION: Final = "ALTER COLUMN position SET INCREMENT 1 SET CACHE 1 SET NO CYCLE"


async def require_specified(session: Session) -> None:
    """Raises Misconfigured if a table of one of these names exists, and is another."""
    for table, specified in SPECIFIED_TABLES.items():
        if columns := dict(await session.fetch(SELECT_COLUMNS, (table,), make=_column)):
            differing = sorted(
                name
                for name in columns.keys() | specified.keys()
                if columns.get(name) != specified.get(name)
            )
            if differing == ["position"] and "position" not in columns:
                await _refuse_without_position(session)
            if differing:
                raise Misconfigured(
                    SCHEMA_SETTING,
                    f"the table {table} is there, and not as specified: {', '.join(differing[:5])}",
                )
            if "position" in columns:
                await _require_rising(session)


async def _refuse_without_position(session: Session) -> None:
    remedy = (
        f"{await _alter(session, ADD_POSITION)}, best when nothing in it waits: what waits is "
        "numbered as it lies in the table"
    )
    raise Misconfigured(
        SCHEMA_SETTING,
        f"the table outbox_events has no column position, which orders events: {remedy}",
    )


async def _require_rising(session: Session) -> None:
    if not await session.fetch_one(IS_RISING, make=bool):
        remedy = await _alter(session, MEND_POSITION)
        raise Misconfigured(
            SCHEMA_SETTING,
            f"positions of outbox_events must rise one by one, they order events: {remedy}",
        )


async def _alter(session: Session, change: str) -> str:
    schema = await session.fetch_one(SELECT_SCHEMA, make=str)
    return f"let its owner say ALTER TABLE {schema}.outbox_events {change}"


def _column(name: str, form: str) -> tuple[str, str]:
    return name, form
