"""A PostgreSQL once a session, a database of its own and a nats-server for every test that asks.

What the SQL does is tested on 16 and 18 (`both_majors`), by `make test` on the newer one alone;
what stands on the SQL, on that one. The kill stories are killed on 16.
"""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from nats.aio.client import Client

from router.mailbox.postgres import Database, DatabaseConfig
from tests.support.broker import Broker
from tests.support.patient_client import connect_patiently
from tests.support.postgres import HOMES, Postgres


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "postgres" in metafunc.fixturenames:
        has_both = metafunc.definition.get_closest_marker(
            "both_majors"
        ) and not metafunc.config.getoption("short")
        majors = sorted(HOMES) if has_both else [max(HOMES)]
        metafunc.parametrize(
            "postgres", majors, indirect=True, scope="session", ids="postgres{}".format
        )


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest, postgres_of: Callable[[int], Postgres]) -> Postgres:
    return postgres_of(request.param)


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
    client = await connect_patiently(broker.url)
    yield client
    await client.close()
