"""`outbox.add` beside SQLAlchemy itself: what the refusal says to write is written, and the event
stands or falls with the transaction.

Its ORM writes a change when it flushes: how the aggregate's lock is taken before an event is added
(docs/how-to/use-the-mailbox.md#order).
"""

import ast
import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, create_engine
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    scoped_session,
    sessionmaker,
)

from router import outbox
from router.mailbox.entities import OutboxEvent
from tests.support.mailbox import an_event
from tests.support.postgres import rows

ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])


@pytest.fixture
def url(dsn: str) -> str:
    return dsn.replace("postgresql://", "postgresql+psycopg://", 1)


@contextmanager
def a_transaction(given: type, url: str, end: str) -> Iterator[Any]:
    """What a service has in its hands in a transaction that ends so."""
    engine = create_engine(url)
    with engine.connect() as connection:
        transaction = connection.begin()
        sessions = sessionmaker(connection, join_transaction_mode="rollback_only")
        yield {
            Connection: lambda: connection,
            Session: sessions,
            scoped_session: lambda: scoped_session(sessions),
        }[given]()
        getattr(transaction, end)()
    engine.dispose()


@asynccontextmanager
async def an_async_transaction(given: type, url: str, end: str) -> AsyncIterator[Any]:
    engine = create_async_engine(url)
    async with engine.connect() as connection:
        transaction = await connection.begin()
        sessions = async_sessionmaker(connection, join_transaction_mode="rollback_only")
        scoped = async_scoped_session(sessions, asyncio.current_task)
        yield {
            AsyncConnection: lambda: connection,
            AsyncSession: sessions,
            async_scoped_session: lambda: scoped,
        }[given]()
        await getattr(transaction, end)()
    await engine.dispose()


async def write_as_told(given: Any, event: OutboxEvent) -> None:
    """Runs the expression that the refusal names, as a service's author would who copies it."""
    with pytest.raises(TypeError) as refused:
        outbox.add(given, event)
    told = re.search(r"(?:await )?outbox\.add\(.*, event\)", str(refused.value))
    assert told, refused.value
    code = compile(told[0], "<the refusal>", "eval", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    written = eval(code, {"outbox": outbox, "connection": given, "session": given, "event": event})
    if inspect.isawaitable(written):
        await written


async def stored(dsn: str) -> list[tuple[object, ...]]:
    return await rows(dsn, "SELECT id FROM outbox_events")


@ENDS
@pytest.mark.parametrize("given", [Connection, Session, scoped_session])
async def test_an_event_stands_or_falls_with_a_transaction(
    given: type, end: str, url: str, dsn: str
) -> None:
    event = an_event()
    with a_transaction(given, url, end) as mine:
        await write_as_told(mine, event)
        assert await stored(dsn) == [], "not before the service commits"
    assert await stored(dsn) == ([(event.id,)] if end == "commit" else [])


@ENDS
@pytest.mark.parametrize("given", [AsyncConnection, AsyncSession, async_scoped_session])
async def test_an_event_stands_or_falls_with_an_async_transaction(
    given: type, end: str, url: str, dsn: str
) -> None:
    event = an_event()
    async with an_async_transaction(given, url, end) as mine:
        await write_as_told(mine, event)
        assert await stored(dsn) == [], "not before the service commits"
    assert await stored(dsn) == ([(event.id,)] if end == "commit" else [])


class Base(DeclarativeBase):
    """The models of a service."""


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    amount: Mapped[int]


def pay_read_for_update(session: Session) -> None:
    order = session.get_one(Order, "o-1", with_for_update=True)
    order.amount = 5


def pay_and_flush(session: Session) -> None:
    session.get_one(Order, "o-1").amount = 5
    session.flush()


def pay_alone(session: Session) -> None:
    session.get_one(Order, "o-1").amount = 5


@pytest.mark.parametrize(
    ("pay", "is_locked"), [(pay_read_for_update, True), (pay_and_flush, True), (pay_alone, False)]
)
async def test_the_orm_has_the_lock_before_the_event_if_asked_to(
    pay: Callable[[Session], None], is_locked: bool, url: str, dsn: str
) -> None:
    await rows(dsn, "CREATE TABLE orders (id TEXT PRIMARY KEY, amount INT)")
    await rows(dsn, "INSERT INTO orders VALUES ('o-1', 0)")
    engine = create_engine(url)
    with Session(engine) as session:
        pay(session)
        await write_as_told(session, an_event())
        assert await is_order_locked(dsn) == is_locked
        session.commit()
    engine.dispose()
    assert await rows(dsn, "SELECT amount FROM orders") == [(5,)]


async def is_order_locked(dsn: str) -> bool:
    try:
        await rows(dsn, "SELECT FROM orders FOR UPDATE NOWAIT")
    except psycopg.errors.LockNotAvailable:
        return True
    return False
