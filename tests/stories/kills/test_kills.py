"""Whatever is killed, wherever and how often: nothing is lost and nothing double. `table.py` says who, where and how often."""

from collections.abc import Callable, Iterable
from typing import cast

import pytest

from tests.stories.kills.table import STORIES, Count, CountInPostgres, KillCase, KillStory
from tests.support.kills import KillCount
from tests.support.postgres import Postgres
from tests.support.result_pages import format_table, write_page

RunCase = Callable[[KillCase], Iterable[KillCount]]
SHORT = [pytest.param(story, case, id=f"{story.name}: {case.plan}") for story in STORIES for case in story.short]


@pytest.mark.slow  # deaths and restarts of processes
@pytest.mark.parametrize(("story", "case"), SHORT)
async def test_what_is_killed_loses_and_doubles_nothing_and_a_control_does(
    story: KillStory, case: KillCase, request: pytest.FixtureRequest
) -> None:
    """The router, the bus, agents, the mailbox.

    SR-24 (one transaction for mark and effect, and its control), MF-4 and MF-6 (an agent's effects happen once; its control),
    SD-14 (a relay, and its control), SD-15, SD-16, SD-36 (an inbox, in the row's own transaction), SD-33 (over HTTP a call is at
    least once). A control loses or doubles one for each kill. Where the stream's duplicate window is shorter than a relay is
    away, a round may stand twice, and nothing is lost.
    """
    rows = await _count(case, request)
    print(_table(story, rows))
    assert all(case.expects(row) for row in rows), rows


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
async def test_the_long_table_is_kept_in_bench_results(story: KillStory, request: pytest.FixtureRequest) -> None:
    """MF-7, UL-25, and all of the above: ten kills a line and more."""
    rows, wrong = [], []
    for case in story.long:
        found = await _count(case, request)
        rows += found
        wrong += [row for row in found if not case.expects(row)]
    write_page(f"kill_{story.name}", story.title, _table(story, rows), story.note)
    assert not wrong, wrong


async def _count(case: KillCase, request: pytest.FixtureRequest) -> list[KillCount]:
    if case.needs_postgres:
        postgres: Postgres = request.getfixturevalue("postgres")
        return await cast(CountInPostgres, case.count)(postgres, case.plan)
    return await cast(Count, case.count)(case.plan)


def _table(story: KillStory, rows: list[KillCount]) -> str:
    heads = ("killed", "kills", story.sent, story.stored, "lost", "double", *rows[0].wrong, *rows[0].beside)
    return format_table(heads, [row.cells for row in rows])
