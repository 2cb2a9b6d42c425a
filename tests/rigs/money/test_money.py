"""The money matrix, shortly: a client, a worker and a provider that are hostile, beside honest
ones, and the server is killed once.
"""

from pathlib import Path

import pytest

from tests.rigs.money.killing import SERVER
from tests.rigs.money.page import render_page
from tests.rigs.money.rows import BY_NAME
from tests.rigs.money.run import Plan, run
from tests.rigs.money.verdicts import checks_of
from tests.rigs.neighbours.tree import find_own_tree

SHORT = ("one-id", "statuses", "billions", "unknown", "sly")


# a server, two routers and three processes start, one dies, and then nothing may move for some
# seconds
@pytest.mark.slow
@pytest.mark.timeout(300)  # two routers and three processes start, on a machine that is busy
async def test_money_follows_the_work_whatever_hostile_players_say(tmp_path: Path) -> None:
    """Issue 46: the money matrix."""
    plan = Plan(
        [BY_NAME[name] for name in SHORT],
        300,
        pause_s=(0.3, 0.5),
        kills=1,
        order=(SERVER,),
        ended_s=8.0,
        quiet_s=4.0,
    )
    found = await run(plan, find_own_tree(), print)
    written = tmp_path / "money.md"
    written.write_text(render_page({}, [found], plan.seed))
    assert found.kills == {SERVER: 1}
    assert all(row.honest.bill.owed > 0 < row.hostile.bill.owed for row in found.rows), (
        "nothing was done"
    )
    assert [
        (row.row, what) for row in found.rows for what, kept in checks_of(row).items() if not kept
    ] == []
