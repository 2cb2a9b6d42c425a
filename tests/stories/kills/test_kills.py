"""Whatever is killed, wherever and how often: nothing is lost and nothing double. `table.py` says
who, where and how often.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

import pytest

from tests.stories.kills.kept import keep, list_heads
from tests.stories.kills.table import STORIES, Count, CountInPostgres, KillCase, KillStory
from tests.support.kills import KillCount, KillPlan
from tests.support.postgres import Postgres
from tests.support.result_pages import format_table

RunCase = Callable[[KillCase], Iterable[KillCount]]
SHORT = [
    pytest.param(story, case, id=f"{story.name}: {case.plan}")
    for story in STORIES
    for case in story.short
]
LONG = [  # one row of a story after the other: each has processes enough for a machine
    pytest.param(
        story,
        case,
        id=f"{story.name}: {case.plan}",
        marks=pytest.mark.xdist_group(f"kills of {story.name}"),
    )
    for story in STORIES
    for case in story.long
]


@pytest.mark.slow  # deaths and restarts of processes
@pytest.mark.parametrize(("story", "case"), SHORT)
async def test_what_is_killed_loses_and_doubles_nothing_and_a_control_does(
    story: KillStory, case: KillCase, request: pytest.FixtureRequest
) -> None:
    """The router, the bus, agents (T1), the mailbox (T2: a relay, T3: an inbox).

    SR-24 (one transaction for mark and effect, and its control), MF-4 and MF-6 (an agent's effects
    happen once; its control), SD-14 (a relay, and its control), SD-15, SD-16, SD-36 (an inbox, in
    the row's own transaction), SD-33 (over HTTP a call is at least once). A control loses or
    doubles one for each kill. Where the stream's duplicate window is shorter than a relay is away,
    a round may stand twice, and nothing is lost.
    """
    rows = await _count(case, request)
    print(_table(story, rows))
    assert all(case.expects(row) for row in rows), rows


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("story", "case"), LONG)
async def test_a_row_of_the_long_table_is_kept_in_bench_results(
    story: KillStory, case: KillCase, request: pytest.FixtureRequest
) -> None:
    """MF-7, UL-25, and all of the above: ten kills a line and more."""
    rows = await _count(case, request)
    keep(story, str(case.plan), rows)
    assert all(case.expects(row) for row in rows), rows


async def test_a_page_shows_the_rows_that_were_kept_in_the_order_of_the_story_and_names_the_others(
    tmp_path: Path,
) -> None:
    first, second, third = (
        KillCase(KillPlan((), 0, 1, 1, label=label), _count_nothing)
        for label in ("first", "second", "third")
    )
    story = KillStory(
        "s", "Title", "sent", "stored", short=[], long=[first, second, third], note="The note."
    )
    for label, lost in (("second", 1), ("first", 0), ("second", 0)):
        keep(
            story,
            label,
            [KillCount(label, 1, 1, 1, lost, 0, {"wrong": 0}, {"beside": "x"})],
            tmp_path,
        )
    page = (tmp_path / "kill_s.md").read_text()
    lines = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    assert [line[0] for line in lines] == ["| killed", "| ---", "| first", "| second"]
    assert lines[0][1:-1] == ["kills", "sent", "stored", "lost", "double", "wrong", "beside"]
    assert lines[3][1:-1] == ["1", "1", "1", "0", "0", "0", "x"]
    assert page.endswith("Not run yet: third.\n\nThe note.\n")


def test_each_row_of_a_story_has_a_name_of_its_own() -> None:
    """Under which it is kept."""
    for story in STORIES:
        names = [str(case.plan) for case in story.long]
        assert len(set(names)) == len(names), story.name


async def _count_nothing(_: KillPlan) -> list[KillCount]:
    return []


async def _count(case: KillCase, request: pytest.FixtureRequest) -> list[KillCount]:
    if case.needs_postgres:
        postgres: Postgres = request.getfixturevalue("postgres")
        return await cast(CountInPostgres, case.count)(postgres, case.plan)
    return await cast(Count, case.count)(case.plan)


def _table(story: KillStory, rows: list[KillCount]) -> str:
    return format_table(list_heads(story, rows[0]), [row.cells for row in rows])
