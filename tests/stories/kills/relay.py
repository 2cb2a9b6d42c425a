"""A relay is killed between a claim and the end of its transaction: how often does each committed
row stand in the stream?

A life is given rows in small transactions. PostgreSQL runs with fsync on.
"""

import asyncio

from tests.support.kills import KillCount, KillPlan, count_ids, kill_and_restart
from tests.support.mailbox import OutboxStream, all_published, order_violations
from tests.support.postgres import Postgres, rows
from tests.support.relay import Relay, a_database_and_stream, commit_rows, names_for

WINDOW_S = 3600.0


class MarkFirstRelay(Relay):
    command = ("tests.support.mark_first_relay",)


async def count_published(postgres: Postgres, plan: KillPlan) -> list[KillCount]:
    return await _count(postgres, plan, Relay, WINDOW_S)


async def count_published_within(
    window_s: float, postgres: Postgres, plan: KillPlan
) -> list[KillCount]:
    """The stream forgets an id after `window_s`, sooner than the relay is back."""
    return await _count(postgres, plan, Relay, window_s)


async def count_published_after_mark(postgres: Postgres, plan: KillPlan) -> list[KillCount]:
    """The control: a relay that marks a row before it publishes it. It loses some, so the count
    does not wait for all.
    """
    return await _count(postgres, plan, MarkFirstRelay, WINDOW_S)


async def _count(
    postgres: Postgres, plan: KillPlan, process: type[Relay], window_s: float
) -> list[KillCount]:
    async with a_database_and_stream(postgres, window=window_s) as (dsn, place, broker):
        relay = process(
            {
                **names_for(broker.url, dsn),
                "mailbox.events.duplicate_window_ms": round(window_s * 1000),
            },
            None,
        )
        try:
            await kill_and_restart(relay, plan, lambda share: commit_rows(dsn, len(share)))
            await all_published(dsn, within_s=60)
            # the control marks its last row before that one is stored
            await asyncio.to_thread(relay.terminate)
        finally:
            relay.remove()
        return [await _count_in_stream(dsn, place, plan)]


async def _count_in_stream(dsn: str, place: OutboxStream, plan: KillPlan) -> KillCount:
    committed = [str(one) for (one,) in await rows(dsn, "SELECT id FROM outbox_events")]
    ((parked,),) = await rows(dsn, "SELECT count(*) FROM outbox_relay_state")
    assert isinstance(parked, int)
    events = await place.events()
    stored = [event.headers["Nats-Msg-Id"] for event in events]
    return count_ids(
        plan, committed, stored, {"parked": parked, "out of order": order_violations(events)}
    )
