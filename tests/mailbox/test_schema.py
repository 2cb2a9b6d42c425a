import asyncio

import psycopg
import pytest

from router.core.errors import Misconfigured
from router.mailbox.errors import DatabaseRefused, DatabaseUnavailable
from router.mailbox.postgres import Database, DatabaseConfig
from router.mailbox.schema import check, migrate, migrations, require
from tests.support.postgres import Postgres, rows

pytestmark = pytest.mark.both_majors

OUTBOX = [  # SD-26
    ("id", "uuid", "NO", None),
    ("aggregate_type", "text", "NO", None),
    ("aggregate_id", "text", "NO", None),
    ("event_type", "text", "NO", None),
    ("event_version", "integer", "NO", "1"),
    ("payload", "jsonb", "NO", None),
    ("occurred_at", "timestamp with time zone", "NO", "now()"),
    ("correlation_id", "uuid", "YES", None),
    ("causation_id", "uuid", "YES", None),
    ("published_at", "timestamp with time zone", "YES", None),
    ("publish_attempts", "integer", "NO", "0"),
    ("publish_error", "text", "YES", None),
    ("position", "bigint", "NO", None),  # ours, of all these: X27
]
INBOX = [  # SD-27
    ("message_id", "uuid", "NO", None),
    ("subject", "text", "NO", None),
    ("received_at", "timestamp with time zone", "NO", "now()"),
    ("processed_at", "timestamp with time zone", "YES", None),
    ("attempts", "integer", "NO", "0"),
    ("last_error", "text", "YES", None),
]
INDEXES = {
    "outbox_events": {
        "outbox_events_pkey": "(id)",
        "idx_outbox_unpublished": "(occurred_at) WHERE (published_at IS NULL)",
        "idx_outbox_correlation": "(correlation_id)",
        "idx_outbox_position": '("position") WHERE (published_at IS NULL)',
    },
    "inbox_messages": {
        "inbox_messages_pkey": "(message_id)",
        "idx_inbox_unprocessed": "(received_at) WHERE (processed_at IS NULL)",
    },
}


@pytest.mark.parametrize(
    ("table", "columns"), [("outbox_events", OUTBOX), ("inbox_messages", INBOX)]
)
async def test_a_table_has_the_specified_columns_and_no_other(
    dsn: str, table: str, columns: list[tuple[object, ...]]
) -> None:
    """SD-1, SD-26, SD-27."""
    query = """
        SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns
        WHERE table_name = %s AND table_schema = 'public' ORDER BY ordinal_position"""
    assert await rows(dsn, query, table) == columns


@pytest.mark.parametrize("table", INDEXES)
async def test_a_table_has_the_specified_indexes_and_no_other(dsn: str, table: str) -> None:
    """SD-26, SD-27."""
    found = await rows(
        dsn, "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %s", table
    )
    assert {str(name): str(text).split("USING btree ")[1] for name, text in found} == INDEXES[table]


async def test_the_check_is_the_specified_one(dsn: str) -> None:
    """SD-26."""
    query = (
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = "
        "'chk_occurred_not_future'"
    )
    assert await rows(dsn, query) == [("CHECK ((occurred_at <= (now() + '00:01:00'::interval)))",)]


async def test_migrating_twice_does_nothing(dsn: str, database: Database) -> None:
    assert await migrate(database, "public") == []
    assert await check(database) == []


async def test_two_that_migrate_at_once_take_turns(postgres: Postgres) -> None:
    await rows(postgres.dsn(), "DROP DATABASE IF EXISTS empty")
    await rows(postgres.dsn(), "CREATE DATABASE empty")
    async with (
        Database(DatabaseConfig(postgres.dsn("empty"))) as one,
        Database(DatabaseConfig(postgres.dsn("empty"))) as two,
    ):
        assert [found.name for found in await check(one)] == [found.name for found in migrations()]
        with pytest.raises(Misconfigured, match="router mailbox migrate"):
            await require(one)
        applied = await asyncio.gather(migrate(one, "public"), migrate(two, "public"))
        assert sorted(map(len, applied)) == [0, len(migrations())]


async def test_contexts_in_schemas_of_one_database_do_not_meet(dsn: str) -> None:
    """SD-28."""
    async with Database(DatabaseConfig(dsn, schema="vibespro")) as other:
        assert len(await migrate(other, "vibespro")) == len(migrations())
    found = await rows(
        dsn, "SELECT schemaname FROM pg_tables WHERE tablename = 'outbox_events' ORDER BY 1"
    )
    assert found == [("public",), ("vibespro",)]


async def test_no_error_of_the_database_tells_a_password_or_a_value(dsn: str) -> None:
    async with Database(
        DatabaseConfig("postgresql://me:geheim@127.0.0.1:1/none", timeout=0.2)
    ) as away:
        with pytest.raises(DatabaseUnavailable) as unavailable:
            async with away.transaction():
                pass
    async with Database(DatabaseConfig(dsn)) as database:
        with pytest.raises(DatabaseRefused) as refused:
            async with database.transaction() as session:
                await session.execute("SELECT %s::uuid", ("geheim",))
    assert "geheim" not in (
        f"{unavailable.value!r} {unavailable.value.__cause__!r} {refused.value!r} "
        f"{refused.value.__cause__!r}"
    )
    assert refused.value.sqlstate == psycopg.errors.InvalidTextRepresentation.sqlstate


async def test_a_connection_string_that_cannot_be_read_is_a_wrong_setting() -> None:
    with pytest.raises(Misconfigured, match=r"mailbox\.dsn"):
        await Database(DatabaseConfig("postgresql://[geheim")).open()
