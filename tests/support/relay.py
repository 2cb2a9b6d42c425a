"""`router outbox relay` as a process that can be killed, and the ledger of what it published (docs/durability.md#crash-matrix).

A life is given rows in small transactions. `passes` of a crash point are rounds here, not rows, so they are scaled down.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from tests.support.broker import Broker
from tests.support.kills import Plan, Row, Victim, counted, killed
from tests.support.mailbox import Place, a_place, all_published, filled, order_violations
from tests.support.postgres import Postgres, rows

ROUND = 50  # rows that one transaction claims, so that a share takes several
AT_ONCE = 25  # rows that a service commits together


class Relay(Victim):
    command = ("router", "outbox", "relay")
    announces = "outbox.ready"

    def to_die_at(self, point: str, passes: int) -> None:
        super().to_die_at(point, max(1, passes // ROUND))


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


class Found(Struct):
    """What a story came to."""

    row: Row
    order_violations: int
    most_attempts: int


@asynccontextmanager
async def a_ground(postgres: Postgres, *, window: float = 3600.0, sync_always: bool = False) -> AsyncIterator[tuple[str, Place, Broker]]:
    """A database, a broker with the stream, and our connection to it."""
    broker = Broker(sync_always=sync_always).start()
    try:
        async with a_place(broker, window=window) as place:
            yield await postgres.database(), place, broker
    finally:
        broker.remove()


async def story(
    postgres: Postgres, plan: Plan, label: str, *, relay: type[Relay] = Relay, window: float = 3600.0, is_all: bool = True
) -> Found:
    """All the kills of a plan, then the ledger. `is_all` False: this relay is known to lose, so the run does not wait for the rest."""
    async with a_ground(postgres, window=window) as (dsn, place, broker):
        victim = relay({**names_for(broker.url, dsn), "mailbox.events.duplicate_window_ms": round(window * 1000)}, None)
        try:
            await killed(victim, plan, lambda share: fed(dsn, len(share)))
            await all_published(dsn, within_s=60)
            if is_all:
                await asyncio.to_thread(victim.terminate)
        finally:
            victim.remove()
        return await ledger(dsn, place, plan, label)


async def ledger(dsn: str, place: Place, plan: Plan, label: str) -> Found:
    """What was committed against what stands in the stream."""
    committed = [str(one) for (one,) in await rows(dsn, "SELECT id FROM outbox_events")]
    ((parked,),) = await rows(dsn, "SELECT count(*) FROM outbox_relay_state")
    ((attempts,),) = await rows(dsn, "SELECT max(publish_attempts) FROM outbox_events")
    events = await place.events()
    assert isinstance(parked, int)
    assert isinstance(attempts, int)
    row = counted(plan, label, committed, [event.headers["Nats-Msg-Id"] for event in events], parked)
    return Found(row, order_violations(events), attempts)


async def fed(dsn: str, count: int) -> None:
    """Rows in transactions of `AT_ONCE`."""
    for start in range(0, count, AT_ONCE):
        await filled(dsn, min(AT_ONCE, count - start))
