"""The tables made by a role that owns its schema alone, and beside the specified tables that a service has made itself."""

import re
from pathlib import Path

import pytest

from router.core.errors import Misconfigured
from router.mailbox import schema
from router.mailbox.postgres import Database, DatabaseConfig
from router.mailbox.schema import check, migrate, migrations
from tests.support.mailbox import add_events, an_event
from tests.support.postgres import Postgres, rows

pytestmark = pytest.mark.both_majors

SPECIFIED = re.sub(" IF NOT EXISTS", "", (Path(schema.__file__).parent / "migrations/0001_tables.sql").read_text())


@pytest.fixture
async def empty(postgres: Postgres) -> str:
    """A database without tables, and a role in it that may do nothing."""
    await rows(postgres.dsn(), "DROP DATABASE IF EXISTS beside")
    await rows(postgres.dsn(), "CREATE DATABASE beside")
    await rows(postgres.dsn(), "DROP ROLE IF EXISTS app")
    await rows(postgres.dsn(), "CREATE ROLE app LOGIN")
    return postgres.dsn("beside")


def as_app(dsn: str) -> str:
    return dsn.replace("postgres@", "app@")


async def test_a_role_that_owns_its_schema_alone_makes_the_tables(empty: str) -> None:
    """CREATE SCHEMA asks for a right on the database, even where the schema is there."""
    await rows(empty, "CREATE SCHEMA orders AUTHORIZATION app")
    async with Database(DatabaseConfig(as_app(empty), schema="orders")) as database:
        assert await migrate(database, "orders") == migrations()
        assert await check(database) == []


async def test_a_schema_that_is_missing_and_may_not_be_made_is_named_with_what_to_do(empty: str) -> None:
    async with Database(DatabaseConfig(as_app(empty), schema="orders")) as database:
        with pytest.raises(Misconfigured, match='CREATE SCHEMA "orders" AUTHORIZATION "app"'):
            await migrate(database, "orders")


async def test_the_specified_tables_that_are_there_are_taken_over_with_their_rows(empty: str) -> None:
    """SD-26, SD-27: made by the specification's own SQL, an event in them."""
    await rows(empty, SPECIFIED.replace("%", "%%"))
    (event,) = await add_events(empty, an_event())
    async with Database(DatabaseConfig(empty)) as database:
        assert await migrate(database, "public") == migrations()
    assert await rows(empty, "SELECT id FROM outbox_events") == [(event,)]


@pytest.mark.parametrize(
    ("table", "other", "named"),
    [
        ("outbox_events", "CREATE TABLE outbox_events (id UUID PRIMARY KEY)", "aggregate_id"),
        ("inbox_messages", "CREATE TABLE inbox_messages (message_id TEXT PRIMARY KEY)", "message_id"),
        ("outbox_events", SPECIFIED + "ALTER TABLE outbox_events ADD COLUMN tenant TEXT", "tenant"),
    ],
)
async def test_a_table_of_that_name_which_is_another_is_named_and_left_alone(empty: str, table: str, other: str, named: str) -> None:
    """SD-1: nothing is made beside it, nothing in it is changed."""
    await rows(empty, other)
    async with Database(DatabaseConfig(empty)) as database:
        with pytest.raises(Misconfigured, match=rf"{table}.*{named}"):
            await migrate(database, "public")
    assert await rows(empty, "SELECT to_regclass('mailbox_migrations')::text, to_regclass('outbox_relay_state')::text") == [(None, None)]


async def test_a_migration_that_the_database_refuses_is_named(empty: str) -> None:
    await rows(empty, SPECIFIED)
    await rows(empty, "GRANT CREATE ON SCHEMA public TO app")
    async with Database(DatabaseConfig(as_app(empty))) as database:
        with pytest.raises(Misconfigured, match=r"mailbox\.dsn: 000\d_\w+: PostgreSQL error 42501"):
            await migrate(database, "public")
