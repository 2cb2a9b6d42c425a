"""Two writers of one warehouse: one stood still, or both run; each message counts once."""

from typing import Any

import pytest

from router.lake.jobs import commits
from router.lake.jobs.commits import Overtaken
from tests.support.lake_jobs import Lake, a_body, messages


def test_a_batch_that_another_writer_committed_meanwhile_is_dropped(
    lake: Lake, other: Lake
) -> None:
    rows = messages([a_body("r-1"), a_body("r-2")])
    other.batch(rows)
    lake.batch(rows)  # stopped before it committed, and went on now
    lake.batch(messages([a_body("r-3")], first=3))
    assert [row["seq"] for row in lake.rows("bronze")] == [1, 2, 3]
    assert [row["seq"] for row in lake.rows("silver")] == [1, 2, 3]
    assert sum(row["count"] for row in lake.rows("gold_day")) == 3
    assert [cut.progress.last for cut in lake.told if cut.progress] == [3]


def test_a_range_that_another_writer_committed_in_part_ends_the_writer(
    lake: Lake, other: Lake
) -> None:
    other.batch(messages([a_body("r-1"), a_body("r-2")]))
    with pytest.raises(Overtaken):
        lake.batch(messages([a_body("r-2"), a_body("r-3")], first=2))
    assert [row["seq"] for row in lake.rows("silver")] == [1, 2]


def test_writers_by_turns_count_each_message_once(lake: Lake, other: Lake) -> None:
    for number in range(1, 5):
        rows = messages([a_body(f"r-{number}")], first=number)
        for writer in (lake, other) if number % 2 else (other, lake):
            writer.batch(rows)
    assert [row["seq"] for row in lake.rows("silver")] == [1, 2, 3, 4]


def test_sums_that_a_writer_did_not_commit_before_it_died_are_made_up_for_by_the_next_batch(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It died between silver and gold, and the other writer runs on without a start."""

    def die(point: str) -> None:
        if point == "lake_after_silver":
            monkeypatch.undo()
            raise MemoryError

    first = messages([a_body("r-1")])
    monkeypatch.setattr("router.lake.jobs.commits.crashpoint", die)
    with pytest.raises(MemoryError):
        other.batch(first)
    lake.batch(first)
    lake.batch(messages([a_body("r-2")], first=2))
    for table in ("gold_day", "gold_minute"):
        assert sum(row["count"] for row in lake.rows(table)) == len(lake.rows("silver")) == 2


def test_a_writer_that_stood_still_before_its_cut_hides_nothing_that_came_after_its_commits(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UL-3, T24 in small: it had looked at the versions, and another ingest wrote its own cut
    meanwhile.
    """
    find = commits.find_versions

    def find_and_stand_still(*arguments: Any) -> dict[str, int] | None:
        monkeypatch.undo()
        versions = find(*arguments)
        lake.batch(messages([a_body("r-2")], first=2))
        return versions

    monkeypatch.setattr(commits, "find_versions", find_and_stand_still)
    other.batch(messages([a_body("r-1")]))
    for table in ("silver", "bronze", "gold_day"):
        assert len(lake.rows(table)) == 2, table
    assert [cut.progress.last for cut in (*lake.told, *other.told) if cut.progress] == [2]
