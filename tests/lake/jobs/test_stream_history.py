"""Which of silver's files a batch searches: those of what the stream held when the batch came,
however long the ingest runs.
"""

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from router.lake.jobs.ingest import MicroBatchSink, _follow_cut
from router.lake.jobs.stream_end import StreamEnd, StreamHistory
from router.lake.source.broker import read_facts
from tests.support.broker import Broker
from tests.support.lake import ARROW, Feed
from tests.support.lake_jobs import FACTS, TASKS, Lake, a_body


@pytest.fixture
def feed(broker: Broker, request: pytest.FixtureRequest) -> Feed:
    """A stream whose messages have no age, so that its first sequence alone bounds a search."""
    return Feed(broker.url, request.node.name[:60]).create()


@pytest.fixture
def lake(feed: Feed, no_jvm: SparkSession, tmp_path: Path) -> Lake:
    """An ingest of that stream."""
    made, end = Lake(no_jvm, tmp_path), StreamEnd(feed.options(), is_trimmed=False)
    made.writing = MicroBatchSink(
        made.warehouse,
        read_facts(feed.options()),
        TASKS,
        partial(_follow_cut, end, lambda _, __: None),
    )
    return made


def ingest(lake: Lake, feed: Feed, start: int, end: int) -> None:
    """One micro-batch: the sequences from `start` up to and without `end`."""
    lake.batch(pa.Table.from_batches(feed.batches(start, end), ARROW))


def list_searched(lake: Lake) -> list[int]:
    """The last sequence of each file that the next batch searches."""
    return sorted(
        file.max_seq or 0 for files in lake.writing._plan().known.values() for file in files
    )


def test_an_ingest_that_goes_on_searches_no_file_of_what_the_stream_has_lost_meanwhile(
    feed: Feed, lake: Lake
) -> None:
    """UL-4."""
    for sequence in range(1, 5):
        feed.put([a_body(f"r-{sequence}")])
        ingest(lake, feed, sequence, sequence + 1)
        feed.purge(before=sequence)
    assert list_searched(lake) == [3, 4]


def test_what_came_again_while_the_stream_held_the_first_counts_once_however_long_it_waited(
    feed: Feed, lake: Lake
) -> None:
    """UL-4: it waits for the third batch; when that is planned, the stream has lost the first
    message long ago.
    """
    feed.put([a_body("r-1")])
    ingest(lake, feed, 1, 2)
    feed.put([a_body("r-2"), a_body("r-1"), a_body("r-3")])
    feed.purge(before=2)
    ingest(lake, feed, 2, 3)
    ingest(lake, feed, 3, 5)
    assert [(row["seq"], row["request_id"]) for row in lake.rows("silver")] == [
        (1, "r-1"),
        (2, "r-2"),
        (4, "r-3"),
    ]
    assert [(row["seq"], row["first_seq"]) for row in lake.rows("duplicates")] == [(3, 1)]


def test_without_an_answer_after_a_cut_a_batch_searches_as_the_one_before(
    feed: Feed, lake: Lake
) -> None:
    feed.put([a_body("r-1"), a_body("r-2")])
    away = StreamEnd(
        replace(feed.options(timeoutMs="100"), url="nats://127.0.0.1:1"), is_trimmed=False
    )
    lake.writing = MicroBatchSink(
        lake.warehouse,
        read_facts(feed.options()),
        TASKS,
        partial(_follow_cut, away, lambda _, __: None),
    )
    ingest(lake, feed, 1, 2)
    ingest(lake, feed, 2, 3)
    feed.purge(before=3)
    assert list_searched(lake) == [1, 2]


def test_a_batch_goes_by_the_newest_state_that_all_of_it_came_after() -> None:
    history = StreamHistory(replace(FACTS, first=1, last=5), 100.0)
    history.add(replace(FACTS, first=4, last=9, max_age_s=30.0), 200.0)
    history.add(replace(FACTS, first=7, last=9, max_age_s=30.0), 300.0)
    found = [history.find_before(sequence) for sequence in (3, 6, 9, 10)]
    assert [(one.facts.first, one.oldest_s) for one in found] == [
        (1, None),
        (1, None),
        (1, None),
        (7, 270.0),
    ]
