"""`outbox.add` given what is no psycopg connection: refused before anything is sent, with the way
to do it.
"""

from typing import Any

import pytest

from router import outbox
from tests.support.mailbox import an_event

# As a library names its classes: the module that they come from, and their own name.
OTHERS = [
    ("sqlalchemy.orm.session", "Session", "session.connection().connection.driver_connection"),
    ("sqlalchemy.ext.asyncio.session", "AsyncSession", "get_raw_connection()).driver_connection"),
    ("sqlalchemy.engine.base", "Connection", "connection.connection.driver_connection"),
    ("sqlalchemy.ext.asyncio.engine", "AsyncConnection", "get_raw_connection()).driver_connection"),
    ("sqlalchemy.engine.base", "Engine", "driver_connection"),
    ("asyncpg.connection", "Connection", "INSERT INTO outbox_events"),
    ("psycopg2.extensions", "connection", "INSERT INTO outbox_events"),
    ("sqlite3", "Connection", "psycopg"),
]


def of_a_library(module: str, name: str) -> Any:
    """Something that has `execute`, as they all do, and must not be asked."""

    def execute(*_: object) -> None:
        raise AssertionError("it was sent a statement that it cannot read")

    kind = type(name, (), {"__module__": module, "execute": execute})
    # a class of the service's own above it
    return type("Mine", (kind,), {"__module__": "my_package.database"})()


@pytest.mark.parametrize(("module", "name", "way"), OTHERS)
def test_a_connection_of_another_library_is_refused_with_the_way_to_do_it(
    module: str, name: str, way: str
) -> None:
    with pytest.raises(TypeError) as refused:
        outbox.add(of_a_library(module, name), an_event())
    assert name in str(refused.value)
    assert way in str(refused.value)


@pytest.mark.parametrize("nothing", [None, "postgresql://localhost/sea", object()])
def test_what_is_no_connection_at_all_is_refused(nothing: Any) -> None:
    with pytest.raises(TypeError, match="psycopg"):
        outbox.add(nothing, an_event())
