"""The format as Spark uses it, batch and streaming, on a real server: one session for all of it."""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.broker import Broker
from tests.support.lake import Feed, a_feed

# queries start processes
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("quiet_spark")]
_numbers = count()


@pytest.fixture
def feed(broker: Broker) -> Feed:
    return Feed(broker.url, f"EVENTS{next(_numbers)}").create()


def read(spark: SparkSession, feed: Feed, **options: str) -> list[Row]:
    source = {"url": feed.url, "stream": feed.stream, **options}
    return spark.read.format("jetstream").options(**source).load().collect()


class Stream:
    """A streaming query that remembers what each micro-batch held; `start` it as often as it dies."""

    def __init__(self, spark: SparkSession, feed: Feed, checkpoint: Path, **options: str) -> None:
        self._source = spark.readStream.format("jetstream").options(
            url=feed.url, stream=feed.stream, timeoutMs="20000", **options
        )
        self._checkpoint = str(checkpoint)
        self.batches: dict[int, list[int]] = {}
        self.meanwhile: Callable[[int], object] = lambda number: None

    def start(self) -> StreamingQuery:
        writer = (
            self._source.load()
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", self._checkpoint)
        )
        return writer.trigger(availableNow=True).start()

    def run(self) -> StreamingQuery:
        while True:
            query = self.start()
            try:
                query.awaitTermination()
            except PySparkException as exc:
                # Spark gives it ten seconds to start: a busy machine takes longer
                if "worker failed to connect back" not in str(exc):
                    raise
            else:
                return query

    def _take(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = sorted(row.seq for row in frame.select("seq").collect())
        self.meanwhile(number)

    @property
    def sizes(self) -> list[int]:
        return [len(self.batches[number]) for number in sorted(self.batches)]

    @property
    def sequences(self) -> list[int]:
        return [sequence for number in sorted(self.batches) for sequence in self.batches[number]]


def progress(query: StreamingQuery) -> list[dict[str, Any]]:
    return [json.loads(one.json)["sources"][0] for one in query.recentProgress]


# -- batch -----------------------------------------------------------------------------------------


def test_a_batch_is_the_stream_however_many_ranges_it_is_read_in(
    spark: SparkSession, feed: Feed
) -> None:
    """UL-14, UL-32."""
    feed.count(500)
    feed.delete(3, 250)
    whole = read(spark, feed, minPartitions="1", endingOffsets="400")
    assert [row.seq for row in whole] == [n for n in range(1, 401) if n not in (3, 250)]
    assert (
        sorted(
            read(spark, feed, minPartitions="3", rowsPerPartition="50", endingOffsets="400"),
            key=lambda row: row.seq,
        )
        == whole
    )


def test_a_wrong_option_is_named(spark: SparkSession, feed: Feed) -> None:
    """UL-14."""
    with pytest.raises(PySparkException, match="failOnDataLoss: 'maybe': true or false"):
        read(spark, feed, failOnDataLoss="maybe")


def test_what_spark_does_not_take_is_not_read_on_and_leaves_no_consumer(
    spark: SparkSession, feed: Feed
) -> None:
    feed.count(2_000)
    frame = spark.read.format("jetstream").options(url=feed.url, stream=feed.stream).load()
    assert len(frame.limit(3).collect()) == 3
    assert feed.consumers() == []


# -- streaming -------------------------------------------------------------------------------------


def test_available_now_ends_at_the_head_as_it_was_tells_the_lag_and_the_next_run_reads_the_rest(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    """UL-13, UL-30, UL-31."""
    stream = Stream(spark, feed.count(150), tmp_path, maxOffsetsPerTrigger="100")
    stream.meanwhile = lambda number: feed.count(30) if number == 0 else None
    query = stream.run()
    assert stream.sizes == [100, 50]
    assert [(one["endOffset"]["next"], one["latestOffset"]["next"]) for one in progress(query)][
        :2
    ] == [(101, 151), (151, 181)]  # as it was when planned
    stream.run()
    assert stream.sequences == list(range(1, 181))


def test_messages_that_went_since_the_checkpoint_stop_the_query_unless_it_may_lose_them(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    """UL-12, UL-26."""
    Stream(spark, feed.count(100), tmp_path).run()
    feed.count(100).purge(before=151)
    with pytest.raises(PySparkException, match="begins at 151 now: sequences 101 to 150 are gone"):
        Stream(spark, feed, tmp_path).run()
    lenient = Stream(spark, feed, tmp_path, failOnDataLoss="false")
    lenient.run()
    assert lenient.sequences == list(range(151, 201))


def test_a_broker_killed_between_micro_batches_and_started_again_costs_no_row_and_doubles_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    """UL-25, UL-33."""
    with a_feed() as (broker, feed):
        stream = Stream(spark, feed.count(300), tmp_path, maxOffsetsPerTrigger="100")

        def kill(number: int) -> None:
            broker.kill()
            broker.start()

        stream.meanwhile = kill
        stream.run()
        assert stream.sequences == list(range(1, 301))


# -- secrets ---------------------------------------------------------------------------------------


def test_no_login_is_told_by_plans_or_progress(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    users = "authorization { users: [ { user: reader, password: hidden-word } ] }"
    login = {"user": "reader", "password": "hidden-word"}
    with Broker(users) as broker:
        feed = Feed(broker.url, **login).create().count(10)
        frame = (
            spark.read.format("jetstream").options(url=feed.url, stream=feed.stream, **login).load()
        )
        assert frame.count() == 10
        frame.explain("extended")
        query = Stream(spark, feed, tmp_path, **login).run()
        with pytest.raises(PySparkException) as wrong:
            read(spark, feed, user="reader", password="hidden-too", timeoutMs="500")
        kept = [file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file()]
        told = [*capfd.readouterr(), str(query.recentProgress), str(wrong.value), *kept]
        assert not [text for text in told if "hidden" in text]
