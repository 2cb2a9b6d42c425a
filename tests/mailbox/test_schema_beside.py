"""The tables made by a role that owns its schema alone, and beside the specified tables that a
service has made itself.
"""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from router.core.errors import Misconfigured
from router.mailbox import schema
from router.mailbox.postgres import Database, DatabaseConfig
from router.mailbox.schema import check, migrate, migrations, require
from tests.support.mailbox import add_events, an_event
from tests.support.postgres import Postgres, rows

pytestmark = pytest.mark.both_majors

Look = Callable[[Database], Awaitable[object]]
SPECIFIED = re.sub(
    " IF NOT EXISTS", "", (Path(schema.__file__).parent / "migrations/0001_tables.sql").read_text()
)


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


async def test_a_schema_that_is_missing_and_may_not_be_made_is_named_with_what_to_do(
    empty: str,
) -> None:
    async with Database(DatabaseConfig(as_app(empty), schema="orders")) as database:
        with pytest.raises(Misconfigured, match='CREATE SCHEMA "orders" AUTHORIZATION "app"'):
            await migrate(database, "orders")


async def test_the_specified_tables_that_are_there_are_taken_over_with_their_rows(
    empty: str,
) -> None:
    """SD-26, SD-27: made by the specification's own SQL and the column that orders, an event in
    them.
    """
    await rows(empty, SPECIFIED.replace("%", "%%"))
    (event,) = await add_events(empty, an_event())
    async with Database(DatabaseConfig(empty)) as database:
        assert await migrate(database, "public") == migrations()
    assert await rows(empty, "SELECT id FROM outbox_events") == [(event,)]


WAYS_TO_LOOK = pytest.mark.parametrize(
    "look", [lambda database: migrate(database, "sea"), require], ids=["migrate", "require"]
)


@WAYS_TO_LOOK
async def test_an_outbox_without_positions_is_refused_with_the_statement_that_adds_them(
    empty: str, look: Look
) -> None:
    """X27: to those who migrate, and to a relay or an inbox whose tables were made before."""
    async with Database(DatabaseConfig(empty, schema="sea")) as database:
        await migrate(database, "sea")
        await rows(empty, "ALTER TABLE sea.outbox_events DROP COLUMN position")
        with pytest.raises(Misconfigured) as refused:
            await look(database)
        await rows(empty, told_statement(refused.value))
        await look(database)


@WAYS_TO_LOOK
@pytest.mark.parametrize(
    "broken", ["SET CACHE 50", "SET INCREMENT -1 SET MINVALUE -100", "SET CYCLE"]
)
async def test_positions_that_do_not_rise_one_by_one_are_refused_with_the_statement_that_mends_them(
    empty: str, broken: str, look: Look
) -> None:
    """X27: a session with a cache draws positions long before it uses them."""
    async with Database(DatabaseConfig(empty, schema="sea")) as database:
        await migrate(database, "sea")
        await rows(empty, f"ALTER TABLE sea.outbox_events ALTER COLUMN position {broken}")
        with pytest.raises(Misconfigured) as refused:
            await look(database)
        await rows(empty, told_statement(refused.value))
        await look(database)


def told_statement(refused: Misconfigured) -> str:
    """The statement that the refusal tells an owner to run."""
    found = re.search(r"ALTER TABLE sea\.outbox_events [^,]*", str(refused))
    assert found, refused
    return found[0]


async def test_a_role_that_may_only_insert_adds_events_in_their_order(empty: str) -> None:
    """The column's sequence asks for no right of its own."""
    async with Database(DatabaseConfig(empty)) as database:
        await migrate(database, "public")
    await rows(empty, "GRANT INSERT ON outbox_events TO app")
    await add_events(as_app(empty), an_event(), an_event())
    assert await rows(empty, "SELECT position FROM outbox_events ORDER BY id") == [(1,), (2,)]


@pytest.mark.parametrize(
    ("table", "other", "named"),
    [
        ("outbox_events", "CREATE TABLE outbox_events (id UUID PRIMARY KEY)", "aggregate_id"),
        (
            "inbox_messages",
            "CREATE TABLE inbox_messages (message_id TEXT PRIMARY KEY)",
            "message_id",
        ),
        ("outbox_events", SPECIFIED + "ALTER TABLE outbox_events ADD COLUMN tenant TEXT", "tenant"),
        (
            "outbox_events",
            SPECIFIED + "ALTER TABLE outbox_events ALTER COLUMN position SET GENERATED BY DEFAULT",
            "position",
        ),
    ],
)
async def test_a_table_of_that_name_which_is_another_is_named_and_left_alone(
    empty: str, table: str, other: str, named: str
) -> None:
    """SD-1: nothing is made beside it, nothing in it is changed."""
    await rows(empty, other)
    async with Database(DatabaseConfig(empty)) as database:
        with pytest.raises(Misconfigured, match=rf"{table}.*{named}"):
            await migrate(database, "public")
    assert await rows(
        empty,
        "SELECT to_regclass('mailbox_migrations')::text, to_regclass('outbox_relay_state')::text",
    ) == [(None, None)]


async def test_a_migration_that_the_database_refuses_is_named(empty: str) -> None:
    await rows(empty, SPECIFIED)
    await rows(empty, "GRANT CREATE ON SCHEMA public TO app")
    async with Database(DatabaseConfig(as_app(empty))) as database:
        with pytest.raises(Misconfigured, match=r"mailbox\.dsn: 000\d_\w+: PostgreSQL error 42501"):
            await migrate(database, "public")
