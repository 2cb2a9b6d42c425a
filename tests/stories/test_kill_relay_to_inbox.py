"""T2, joined: rows of one database, a relay that is killed, a stream, an inbox, effects in another database (SD-14, SD-15, SD-36)."""

import asyncio
from collections import Counter
from typing import NamedTuple

import pytest

from tests.support.inbox import EFFECTS, effects
from tests.support.inbox_process import HANDLER, InboxProcess
from tests.support.kills import Plan, killed, publish
from tests.support.mailbox import all_published
from tests.support.postgres import Postgres, rows
from tests.support.relay import Relay, a_ground, fed, names_for
from tests.support.waiting import until

POINTS = ("outbox_claimed", "batch_open", "outbox_stored", "outbox_marked", "outbox_committed")
OTHER_END = {"mailbox.context": "vibespro", "inbox.source": "sea"}
FEW = Plan("outbox_stored", at_point=1, at_random=1, share=150)
LONG = [Plan(point, at_point=6, at_random=4, share=200) for point in POINTS]
NOTE = (
    "Two databases, PostgreSQL 16 with fsync on, one inbox process at work all the time; rounds of 50 rows, committed 25 at a time. "
    "What stands in the stream twice has one effect."
)


class Row(NamedTuple):
    """One line of the table."""

    killed: str
    kills: int
    rows: int
    in_stream: int  # different ids
    twice: int  # copies of them beyond the first
    effects: int
    lost: int
    double: int

    @property
    def is_exact(self) -> bool:
        return self.rows == self.in_stream == self.effects and not (self.lost or self.double)


@pytest.mark.timeout(180)
@pytest.mark.slow  # deaths and restarts of a process, beside another one
async def test_what_is_committed_here_has_one_effect_there_wherever_the_relay_is_killed(postgres: Postgres) -> None:
    """Three hundred rows, two kills."""
    row = await _story(postgres, FEW, "outbox_stored, at random")
    assert row.is_exact, row
    assert row.twice == 0


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_ten_thousand_rows_have_ten_thousand_effects(postgres: Postgres) -> None:
    """The whole table, and a window too short to help; it is kept in bench/results."""
    found = [await _story(postgres, plan, f"{plan.point} 6 ×, at random 4 ×") for plan in LONG]
    forgetting = await _story(postgres, Plan("outbox_stored", 5, 0, 200), "outbox_stored, duplicate window 0.1 s", window=0.1)
    heads = ("killed", "kills", "rows", "in the stream", "there twice", "effects", "lost", "double")
    lines = [heads, ("---", *["---:"] * 7), *(tuple(str(cell) for cell in row) for row in [*found, forgetting])]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    publish("kill_relay_to_inbox", "A committed row has one effect at the other end, wherever the relay dies", text, NOTE)
    assert all(row.is_exact for row in [*found, forgetting]), text
    assert sum(row.rows for row in found) == 10_000
    assert forgetting.twice


async def _story(postgres: Postgres, plan: Plan, label: str, *, window: float = 3600.0) -> Row:
    there = await postgres.database()
    await rows(there, EFFECTS)
    async with a_ground(postgres, window=window) as (here, place, broker):
        relay = Relay({**names_for(broker.url, here), "mailbox.events.duplicate_window_ms": round(window * 1000)}, None)
        inbox = InboxProcess(broker.url, there, HANDLER, settings=OTHER_END)
        try:
            await asyncio.to_thread(inbox.start)
            await killed(relay, plan, lambda share: fed(here, len(share)))
            await all_published(here, within_s=60)
            committed = {str(one) for (one,) in await rows(here, "SELECT id FROM outbox_events")}
            await until(lambda: _is_there(there, len(committed)), within_s=60, what="every effect at the other end")
            await asyncio.to_thread(inbox.terminate)  # messages in flight are finished: none comes later
        finally:
            relay.remove()
            inbox.remove()
        return _counted(plan, label, committed, Counter(await place.ids()), Counter(await effects(there)))


async def _is_there(dsn: str, count: int) -> bool:
    return len(set(await effects(dsn))) >= count


def _counted(plan: Plan, label: str, committed: set[str], stored: Counter[str], done: Counter[str]) -> Row:
    return Row(
        label,
        kills=len(plan.ends),
        rows=len(committed),
        in_stream=len(set(stored)),
        twice=stored.total() - len(stored),
        effects=len(set(done)),
        lost=len(committed - set(done)),
        double=done.total() - len(done) + len(set(done) - committed),
    )
