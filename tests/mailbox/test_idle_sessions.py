"""A server that ends sessions which idle: those of a pool are ours to keep, and no line is written
for each.
"""

import logging

import psycopg
import pytest

from router.mailbox.postgres import Database, DatabaseConfig
from tests.support.postgres import rows
from tests.support.waiting import until


async def test_a_pool_keeps_its_connections_under_an_idle_timeout(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each transaction that came after the timeout failed as if the database were away, and psycopg
    warned of it.
    """
    (name,) = (await rows(dsn, "SELECT current_database()"))[0]
    await rows(
        dsn,
        psycopg.sql.SQL("ALTER DATABASE {} SET idle_session_timeout = '50ms'").format(
            psycopg.sql.Identifier(name)
        ),
    )
    async with Database(DatabaseConfig(dsn, connections=1)) as database:
        async with database.transaction() as session:
            ours = await session.fetch_one("SELECT pg_backend_pid()", make=int)
        # it began to idle later
        other = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
        await until(lambda: _has_ended(dsn, other.info.backend_pid))
        with caplog.at_level(logging.WARNING, "psycopg.pool"):
            async with database.transaction() as session:
                assert await session.fetch_one("SELECT pg_backend_pid()", make=int) == ours
    await other.close()
    assert caplog.records == []


async def _has_ended(dsn: str, session: int) -> bool:
    return not await rows(dsn, "SELECT 1 FROM pg_stat_activity WHERE pid = %s", session)
