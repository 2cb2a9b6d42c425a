"""A relay is killed; its rows go through a stream and an inbox into another database: how many
effects do they have there?
"""

import asyncio
from collections import Counter

from tests.stories.kills.relay import WINDOW_S
from tests.support.inbox import EFFECTS, effects
from tests.support.inbox_process import HANDLER, InboxProcess
from tests.support.kills import KillCount, KillPlan, count_ids, kill_and_restart
from tests.support.mailbox import all_published
from tests.support.postgres import Postgres, rows
from tests.support.relay import Relay, a_database_and_stream, commit_rows, names_for
from tests.support.waiting import until

OTHER_END = {"mailbox.context": "vibespro", "inbox.source": "sea"}


async def count_effects(
    postgres: Postgres, plan: KillPlan, *, window_s: float = WINDOW_S
) -> list[KillCount]:
    there = await postgres.database()
    await rows(there, EFFECTS)
    async with a_database_and_stream(postgres, window=window_s) as (here, place, broker):
        relay = Relay(
            {
                **names_for(broker.url, here),
                "mailbox.events.duplicate_window_ms": round(window_s * 1000),
            },
            None,
        )
        inbox = InboxProcess(broker.url, there, HANDLER, settings=OTHER_END)
        try:
            await asyncio.to_thread(inbox.start)
            await kill_and_restart(relay, plan, lambda share: commit_rows(here, len(share)))
            await all_published(here, within_s=60)
            committed = [str(one) for (one,) in await rows(here, "SELECT id FROM outbox_events")]
            await until(
                lambda: _has_effects(there, len(committed)),
                within_s=60,
                what="every effect at the other end",
            )
            # messages in flight are finished: none comes later
            await asyncio.to_thread(inbox.terminate)
        finally:
            relay.remove()
            inbox.remove()
        stored = Counter(await place.ids())
    missing = {"not in the stream": len(set(committed) - set(stored))}
    row = count_ids(plan, committed, await effects(there), missing)
    return [row._replace(beside={"there twice": stored.total() - len(stored)})]


async def _has_effects(dsn: str, count: int) -> bool:
    return len(set(await effects(dsn))) >= count
