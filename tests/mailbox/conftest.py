"""A PostgreSQL once a session, a database of its own and a nats-server for every test that asks.

What the SQL does is tested on 16 and 18 (`both_majors`), by `make test` on the newer one alone;
what stands on the SQL, on that one. The kill stories are killed on 16.
"""

from collections.abc import AsyncIterator, Callable

import pytest

from router.mailbox.postgres import Database, DatabaseConfig
from tests.support.broker import Broker
from tests.support.mailbox import OutboxStream, an_outbox_stream
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
def broker(own_broker: Broker) -> Broker:
    return own_broker


@pytest.fixture
async def place(broker: Broker) -> AsyncIterator[OutboxStream]:
    async with an_outbox_stream(broker) as place:
        yield place
