"""Interleavings of one kind, some at once, while two relays that share the outbox publish; then the
stream beside the ledgers.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from random import Random

import psycopg
from msgspec import Struct

from router.mailbox.outbox import page as paging
from router.mailbox.postgres import Database, DatabaseConfig, Driver
from tests.mailbox.order.schedule import Interleaving, draw_interleaving
from tests.mailbox.order.writers import Ledger, interleave
from tests.support.broker import Broker
from tests.support.mailbox import OutboxStream, a_relay, all_published, an_outbox_stream
from tests.support.postgres import Postgres, rows

AT_ONCE = 8
LEVELS = ("READ COMMITTED", "SERIALIZABLE")


class OrderKind(Struct, frozen=True):
    """What is tried. `is_control`: relays that read by time and id, as the specified columns alone
    allow.
    """

    major: int
    level: str
    writers: int
    is_control: bool = False


class OrderTally(Struct, frozen=True):
    """`crossed`: interleavings in which a transaction had the lock before one that began earlier.
    `wrong`: published in another order.
    """

    kind: OrderKind
    interleavings: int
    crossed: int
    retries: int
    events: int
    lost: int
    double: int
    wrong: int

    @property
    def is_exact(self) -> bool:
        return not self.lost + self.double + self.wrong


async def try_order(
    kind: OrderKind, interleavings: int, seed: int, postgres: Postgres, broker: Broker
) -> OrderTally:
    """Run so many interleavings on a new database and a new stream, and count."""
    draw, dsn = Random(seed), await postgres.database()
    await rows(dsn, "CREATE TABLE orders (id TEXT PRIMARY KEY, changes INT NOT NULL)")
    drawn = [draw_interleaving(draw, number, kind.writers) for number in range(interleavings)]
    async with an_outbox_stream(broker) as place, _two_relays(dsn, place, kind.is_control):
        ledgers = await _run_all(drawn, kind, dsn)
        await all_published(dsn, within_s=120.0)
        ids = await place.ids()
        await place.patient.ask("STREAM.DELETE.SEA_EVENTS", {})
    return _count(kind, ledgers, ids)


async def _run_all(drawn: Iterable[Interleaving], kind: OrderKind, dsn: str) -> list[Ledger]:
    """Eight at once take the next one that is left."""
    left, done = iter(drawn), list[Ledger]()

    async def run_some() -> None:
        async with _connections(dsn, kind.writers) as connections:
            for one in left:
                done.append(await interleave(one, kind.level, connections))

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(run_some())
    return done


@asynccontextmanager
async def _connections(dsn: str, writers: int) -> AsyncIterator[list[Driver]]:
    async with AsyncExitStack() as stack:
        made = [await psycopg.AsyncConnection.connect(dsn, autocommit=True) for _ in range(writers)]
        yield [await stack.enter_async_context(connection) for connection in made]


@asynccontextmanager
async def _two_relays(dsn: str, place: OutboxStream, is_control: bool) -> AsyncIterator[None]:
    """Small pages, so that a batch has several of them while writers commit; the control's page is
    its batch.
    """
    async with AsyncExitStack() as stack:
        if is_control:
            stack.enter_context(_read_by_time())
        database = await stack.enter_async_context(Database(DatabaseConfig(dsn)))
        for _ in range(2):
            await stack.enter_async_context(
                a_relay(database, place, partitions=4, page=30 if is_control else 3, round=30)
            )
        yield


@contextmanager
def _read_by_time() -> Iterator[None]:
    """The control's page, as the specified columns alone order it."""
    kept = paging.SELECT_PAGE
    by_time = kept.replace("ORDER BY e.position", "ORDER BY e.occurred_at, e.id").replace(
        "ORDER BY position", "ORDER BY occurred_at, id"
    )
    try:
        paging.SELECT_PAGE = by_time  # type: ignore[misc]
        yield
    finally:
        paging.SELECT_PAGE = kept  # type: ignore[misc]


def _count(kind: OrderKind, ledgers: Sequence[Ledger], ids: Sequence[str]) -> OrderTally:
    places: dict[str, int] = {}
    for place, event in enumerate(ids):
        places.setdefault(event, place)
    expected = [str(event) for ledger in ledgers for event in ledger.events]
    return OrderTally(
        kind=kind,
        interleavings=len(ledgers),
        crossed=sum(ledger.is_crossed for ledger in ledgers),
        retries=sum(ledger.retries for ledger in ledgers),
        events=len(expected),
        lost=len(set(expected) - set(ids)),
        double=len(ids) - len(set(ids) & set(expected)),
        wrong=sum(not _is_in_order(ledger, places) for ledger in ledgers),
    )


def _is_in_order(ledger: Ledger, places: dict[str, int]) -> bool:
    published = [places[str(event)] for event in ledger.events if str(event) in places]
    return published == sorted(published)
