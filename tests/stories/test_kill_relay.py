"""T2: killed anywhere between a claim and the end of its transaction, each committed row stands in the stream once (SD-14)."""

import pytest

from tests.support.kills import Plan, publish, table
from tests.support.postgres import Postgres
from tests.support.relay import Found, Relay, story

POINTS = ("outbox_claimed", "batch_open", "outbox_stored", "outbox_marked", "outbox_committed")
CONTROL = "control: marked before it is published"
WINDOW = "outbox_stored, duplicate window 0.1 s"
NOTE = "PostgreSQL 16, fsync on; rounds of 50 rows, committed 25 at a time; all other settings are the defaults."

ALL = Plan(POINTS, at_point=1, at_random=1, share=150)  # in one story: a start is what costs
LONG = [Plan(point, at_point=6, at_random=4, share=1000) for point in POINTS]
LONG_AT_RANDOM = Plan(None, at_point=0, at_random=10, share=1000)
LOSING = Plan("outbox_marked", at_point=2, at_random=0, share=50)
FORGETTING = Plan("outbox_stored", at_point=3, at_random=0, share=200)


class HastyRelay(Relay):
    command = ("tests.support.hasty_relay",)


@pytest.mark.timeout(180)
@pytest.mark.slow  # eight deaths and restarts of a process
async def test_a_committed_row_is_published_once_wherever_the_relay_is_killed(postgres: Postgres) -> None:
    """A kill at each point and one at random; the long table kills ten times a line."""
    found = await story(postgres, ALL, "everywhere")
    print(_table([found]))
    assert found.row.is_exact, found
    assert found.order_violations == 0


@pytest.mark.slow
async def test_the_ledger_sees_what_a_relay_loses_that_marks_first(postgres: Postgres) -> None:
    """The control: one lost for each kill."""
    found = await story(postgres, LOSING, CONTROL, relay=HastyRelay, is_all=False)
    assert (found.row.lost, found.row.double) == (LOSING.at_point, 0)


@pytest.mark.slow
async def test_beyond_the_duplicate_window_a_round_may_stand_twice_and_nothing_is_lost(postgres: Postgres) -> None:
    """X13: the window is set, because the server's default is shorter than a relay may be down. The inbox absorbs the rest."""
    found = await story(postgres, FORGETTING, WINDOW, window=0.1)
    assert found.row.lost == found.row.unexpected == 0
    assert found.row.double > 0


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_ten_thousand_rows_at_every_point_and_kills_at_random_on_top(postgres: Postgres) -> None:
    """The whole table; it is kept in bench/results."""
    found = [await story(postgres, plan, f"{plan.point} 6 ×, at random 4 ×") for plan in LONG]
    found.append(await story(postgres, LONG_AT_RANDOM, "at random"))
    controls = [
        await story(postgres, FORGETTING, WINDOW, window=0.1),
        await story(postgres, LOSING, CONTROL, relay=HastyRelay, is_all=False),
    ]
    publish("kill_relay", "A committed row is published once, whatever dies when", _table([*found, *controls]), NOTE)
    assert all(one.row.is_exact and one.order_violations == 0 for one in found), found
    assert controls[1].row.lost


def _table(found: list[Found]) -> str:
    return table([one.row for one in found], "rows", "in the stream").replace("dead letters", "parked")
