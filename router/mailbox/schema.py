"""The tables as versions: `mailbox_migrations` records each applied version, so none is applied twice.

    migrations/0001_tables.sql   the specification's two tables; existing ones that a service made are taken over
    migrations/0002_relay.sql    the tables that the relay keeps beside them
    migrations/0003_inbox.sql    the durable that an inbox belongs to
    migrations/0004_backlog.sql  the function that counts unpublished events
    migrations/0005_long_names.sql  waiting rows may have names of any length
    migrations/0006_publish_acks.sql  the new name of the table of publish acks
    migrations/0007_order.sql    the index by which the relay reads events in their order

`migrate` runs in one transaction under one lock, so two that run at once take turns. `check` only reads. A role that owns nothing but its
schema is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from msgspec import Struct

from router.core.errors import Misconfigured
from router.mailbox.errors import DatabaseRefused
from router.mailbox.postgres import Database, Session
from router.mailbox.specified import require_specified

LOCK = 0x5D5047  # of migrations, in this database


class Migration(Struct, frozen=True):
    """One file of `migrations/`."""

    version: int
    name: str
    text: str


def migrations() -> list[Migration]:
    """All of them, oldest first."""
    return sorted(_read(), key=lambda one: one.version)


async def migrate(database: Database, schema: str) -> list[Migration]:
    """Apply the missing versions and return them.

    Raises DatabaseUnavailable, and Misconfigured if the database refuses, or holds other tables under these names.
    """
    async with database.transaction() as session:
        await session.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        await _make_schema(session, schema)
        await session.script(
            "CREATE TABLE IF NOT EXISTS mailbox_migrations (version INT PRIMARY KEY, name TEXT, applied_at TIMESTAMPTZ DEFAULT NOW())"
        )
        await require_specified(session)
        wanted = await _find_missing(session)
        for migration in wanted:
            await _apply(session, migration)
            await session.execute("INSERT INTO mailbox_migrations (version, name) VALUES (%s, %s)", (migration.version, migration.name))
        return wanted


async def _make_schema(session: Session, schema: str) -> None:
    """Create the schema only where it is missing: the statement needs a right on the database even where it would do nothing."""
    if await session.fetch_one("SELECT to_regnamespace(%s) IS NOT NULL", (f'"{schema}"',), make=bool):
        return
    role = await session.fetch_one("SELECT current_user::text", make=str)
    try:
        await session.script(f'CREATE SCHEMA "{schema}"')
    except DatabaseRefused as exc:
        remedy = f'CREATE SCHEMA "{schema}" AUTHORIZATION "{role}"'
        raise Misconfigured("mailbox.db_schema", f"{schema} is missing and this role may not make it: let an owner say {remedy}") from exc


async def _apply(session: Session, migration: Migration) -> None:
    try:
        await session.script(migration.text)
    except DatabaseRefused as exc:
        raise Misconfigured("mailbox.dsn", f"{migration.name}: {exc}; the role must own the schema and the tables in it") from exc


async def check(database: Database) -> list[Migration]:
    """Return what `migrate` would apply. Raises DatabaseUnavailable, and Misconfigured if a table is another than ours."""
    async with database.transaction() as session:
        await require_specified(session)
        is_there = await session.fetch_one("SELECT to_regclass('mailbox_migrations') IS NOT NULL", make=bool)
        return await _find_missing(session) if is_there else migrations()


async def require(database: Database) -> None:
    """Raises Misconfigured if the tables are missing, others, or older than this package."""
    if missing := await check(database):
        raise Misconfigured("mailbox.schema", f"{', '.join(one.name for one in missing)} not applied: run `router mailbox migrate`")


async def _find_missing(session: Session) -> list[Migration]:
    applied = set(await session.fetch("SELECT version FROM mailbox_migrations", make=int))
    return [migration for migration in migrations() if migration.version not in applied]


def _read() -> Iterator[Migration]:
    for file in files("router.mailbox").joinpath("migrations").iterdir():
        if file.name.endswith(".sql"):
            name = file.name.removesuffix(".sql")
            yield Migration(int(name.split("_")[0]), name, file.read_text())
