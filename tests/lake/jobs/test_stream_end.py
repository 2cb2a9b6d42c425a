"""After a cut: how far the tables are behind the stream, and, if that is wanted, a stream without
what they hold.
"""

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from router.core.errors import Misconfigured
from router.lake.jobs.ingest import IngestJob, MicroBatchSink, _check_trimming, _follow_cut
from router.lake.jobs.stream_end import StreamEnd, StreamReport
from router.lake.source.broker import read_facts
from router.lake.warehouse import Progress
from tests.support.broker import Broker
from tests.support.lake import ARROW, Feed
from tests.support.lake_jobs import FACTS, TASKS, Lake, a_body

HOUR_NS = 3_600 * 10**9


@pytest.fixture
def feed(broker: Broker, request: pytest.FixtureRequest) -> Feed:
    return Feed(broker.url, request.node.name[:60].replace("[", "_")).create(max_age=HOUR_NS)


def progress(feed: Feed, last: int) -> Progress:
    facts = read_facts(feed.options())
    return Progress(stream=facts.stream, created=facts.created, first=1, last=last)


def test_the_lag_is_the_sequences_and_the_age_of_what_the_tables_lack(feed: Feed) -> None:
    """UL-13."""
    feed.count(5)
    feed.delete(3)
    end = StreamEnd(feed.options(), is_trimmed=False)
    behind = end.follow(progress(feed, 2))
    assert (behind.events_behind, behind.trimmed) == (3, None)
    assert behind.seconds_behind is not None
    assert behind.seconds_behind > 0
    level = end.follow(progress(feed, 5))
    assert (level.events_behind, level.seconds_behind, level.trimmed) == (0, 0.0, None)
    assert feed.messages() == 4


def test_a_broker_that_is_away_ends_no_ingest(feed: Feed) -> None:
    done = progress(feed, 0)
    assert (
        StreamEnd(
            replace(feed.options(timeoutMs="100"), url="nats://127.0.0.1:1"), is_trimmed=True
        ).follow(done)
        == StreamReport()
    )


def test_a_stream_loses_what_a_cut_holds_and_no_more(feed: Feed) -> None:
    feed.count(5)
    report = StreamEnd(feed.options(), is_trimmed=True).follow(progress(feed, 3))
    assert (report.trimmed, report.events_behind) == (3, 2)
    assert feed.sequences(1, 6, failOnDataLoss="false") == [4, 5]


def test_a_stream_that_was_made_anew_loses_nothing(feed: Feed) -> None:
    before = progress(feed, 3)
    feed.create_anew().count(3)
    assert StreamEnd(feed.options(), is_trimmed=True).follow(before).trimmed == 0
    assert feed.messages() == 3


def test_a_writer_that_dies_before_its_cut_or_before_the_trimming_loses_nothing(
    feed: Feed, no_jvm: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UL-3, UL-25, UL-34."""
    feed.put([a_body("r-1"), a_body("r-2")])
    lake = a_lake(feed, no_jvm, tmp_path, is_trimmed=True)
    for point in ("lake_after_silver", "lake_after_gold", "lake_after_commit"):
        with monkeypatch.context() as patch:
            for module in ("ingest", "commits"):
                patch.setattr(
                    f"router.lake.jobs.{module}.crashpoint", lambda name, at=point: die(name, at)
                )
            with pytest.raises(MemoryError):
                lake.batch(read(feed, 1, 3))
        assert feed.messages() == 2
        lake = a_lake(feed, no_jvm, tmp_path / point, is_trimmed=True)
    lake.batch(read(feed, 1, 3))
    assert (feed.messages(), [row["seq"] for row in lake.rows("silver")]) == (0, [1, 2])


def test_what_comes_again_after_a_trimming_counts_once(
    feed: Feed, no_jvm: SparkSession, tmp_path: Path
) -> None:
    """UL-4, UL-34: the stream no longer has the first one, and deduplication lasts as long as its
    messages would.
    """
    feed.put([a_body("r-1")])
    a_lake(feed, no_jvm, tmp_path).batch(read(feed, 1, 2))
    assert StreamEnd(feed.options(), is_trimmed=True).follow(progress(feed, 1)).trimmed == 1
    feed.put([a_body("r-1"), a_body("r-2")])
    lake = a_lake(feed, no_jvm, tmp_path)
    lake.batch(read(feed, 2, 4))
    assert [(row["seq"], row["request_id"]) for row in lake.rows("silver")] == [
        (1, "r-1"),
        (3, "r-2"),
    ]
    assert [row["seq"] for row in lake.rows("duplicates")] == [2]


def test_a_stream_without_an_age_is_not_trimmed_for_nothing_would_bound_deduplication() -> None:
    with pytest.raises(Misconfigured, match="has no max_age"):
        _check_trimming(IngestJob(warehouse="w", source={}, is_trimmed=True), FACTS)


def a_lake(feed: Feed, spark: SparkSession, home: Path, *, is_trimmed: bool = False) -> Lake:
    lake, end = Lake(spark, home), StreamEnd(feed.options(), is_trimmed=is_trimmed)
    lake.writing = MicroBatchSink(
        lake.warehouse,
        read_facts(feed.options()),
        TASKS,
        partial(_follow_cut, end, lambda _, __: None),
    )
    return lake


def read(feed: Feed, start: int, end: int) -> pa.Table:
    return pa.Table.from_batches(feed.batches(start, end), ARROW)


def die(name: str, at: str) -> None:
    if name == at:
        raise MemoryError
