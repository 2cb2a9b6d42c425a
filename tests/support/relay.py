"""`router outbox relay` as a process that can be killed, and rows for it in small transactions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.broker import Broker
from tests.support.kills import KilledProcess
from tests.support.mailbox import OutboxStream, an_outbox_stream, fill_outbox
from tests.support.postgres import Postgres

ROUND = 50  # rows that one transaction claims, so that a share takes several
AT_ONCE = 25  # rows that a service commits together


class Relay(KilledProcess):
    command = ("router", "outbox", "relay")
    announces = "outbox.ready"

    def crash_at(self, point: str, passes: int) -> None:
        # it passes a point once a round, not once a row
        super().crash_at(point, max(1, passes // ROUND))


def names_for(url: str, dsn: str) -> dict[str, object]:
    """A relay's settings, quick to notice."""
    return {
        "nats.url": url,
        "http.port": 0,
        "mailbox.dsn": dsn,
        "mailbox.events.max_bytes": -1,
        "mailbox.relay.round": ROUND,
        "mailbox.relay.poll_most_ms": 20,
    }


@asynccontextmanager
async def a_database_and_stream(
    postgres: Postgres, *, window: float = 3600.0, sync_always: bool = False
) -> AsyncIterator[tuple[str, OutboxStream, Broker]]:
    """A database, a broker with the stream, and our connection to it."""
    with Broker(sync_always=sync_always) as broker:
        async with an_outbox_stream(broker, window=window) as place:
            yield await postgres.database(), place, broker


async def commit_rows(dsn: str, count: int) -> None:
    """Rows in transactions of `AT_ONCE`."""
    for start in range(0, count, AT_ONCE):
        await fill_outbox(dsn, min(AT_ONCE, count - start))
