"""PostgreSQL 16 and 18 once a session, a database of its own and a nats-server for every test that asks."""

from collections.abc import AsyncIterator, Iterator

import nats
import pytest
from nats.aio.client import Client

from router.mailbox.postgres import Database, DatabaseConfig
from tests.support.broker import Broker
from tests.support.postgres import HOMES, Postgres


@pytest.fixture(scope="session", params=sorted(HOMES), ids="postgres{}".format)
def postgres(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    server = Postgres(request.param).start()
    yield server
    server.remove()


@pytest.fixture
async def dsn(postgres: Postgres) -> str:
    """A new database with the tables."""
    return await postgres.database()


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(DatabaseConfig(dsn)) as database:
        yield database


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker().start()
    yield broker
    broker.remove()


@pytest.fixture
async def nc(broker: Broker) -> AsyncIterator[Client]:
    """A plain client on the test's server."""
    client = await nats.connect(broker.url)
    yield client
    await client.close()
