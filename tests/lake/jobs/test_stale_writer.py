"""Two writers of one warehouse: one stood still, or both run; each message counts once."""

import pytest

from router.lake.jobs.micro_batch import Overtaken
from router.lake.jobs.micro_batch_sink import MicroBatchSink
from tests.support.lake_jobs import FACTS, Lake, a_body, messages


@pytest.fixture
def other(lake: Lake) -> Lake:
    """A writer of the same warehouse, which began before anything was committed."""
    return Lake(lake.spark, lake.home)


def test_a_batch_that_another_writer_committed_meanwhile_is_dropped(lake: Lake, other: Lake) -> None:
    rows = messages([a_body("r-1"), a_body("r-2")])
    other.batch(rows)
    lake.batch(rows)  # stopped before it committed, and went on now
    lake.batch(messages([a_body("r-3")], first=3))
    assert [row["seq"] for row in lake.rows("bronze")] == [1, 2, 3]
    assert [row["seq"] for row in lake.rows("silver")] == [1, 2, 3]
    assert sum(row["count"] for row in lake.rows("gold_day")) == 3
    assert [commit.last for commit in lake.told] == [3]


def test_ranges_that_are_new_count_beside_one_that_is_not(lake: Lake, other: Lake) -> None:
    first, second = messages([a_body("r-1")]), messages([a_body("r-2")], first=2)
    other.batch(first)
    lake.batch(first, second)
    assert [row["seq"] for row in lake.rows("silver")] == [1, 2]


def test_a_range_that_another_writer_committed_in_part_ends_the_writer(lake: Lake, other: Lake) -> None:
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


def test_an_ingest_continues_after_the_highest_sequence_of_the_log(lake: Lake) -> None:
    """A log in which commits overtook each other, as an older version could leave it."""
    lake.batch(messages([a_body("r-1"), a_body("r-2")]))
    first = lake.warehouse.commits()[0]
    lake.warehouse.append(lambda at, time: first.__class__(commit=at, kind="ingest", at=time, first=1, last=1), after=1)
    assert lake.warehouse.last_sequence() == 2
    assert MicroBatchSink(lake.warehouse, FACTS, lake.told.append).error is None
