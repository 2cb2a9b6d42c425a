"""What Spark's planner asks, without Spark: offsets, limits and partitions on a real stream."""

import pickle
from itertools import count

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from router.core.errors import BrokerUnavailable, Misconfigured
from router.lake.source.offset import DataLoss, Json
from router.lake.source.options import read_options
from router.lake.source.reader import JetStreamReader, JetStreamStreamReader
from router.lake.source.rows import MESSAGE_SCHEMA
from tests.support.broker import Broker
from tests.support.lake import Feed, seqs

_numbers = count()


@pytest.fixture
def feed(broker: Broker) -> Feed:
    return Feed(broker.url, f"EVENTS{next(_numbers)}").create()


def batch(feed: Feed, **options: str) -> list[int]:
    reader = JetStreamReader(feed.options(**options), MESSAGE_SCHEMA)
    return [
        sequence for partition in reader.partitions() for sequence in seqs(reader.read(partition))
    ]


def streaming(feed: Feed, **options: str) -> JetStreamStreamReader:
    return JetStreamStreamReader(feed.options(**options), MESSAGE_SCHEMA)


def taken(reader: JetStreamStreamReader, start: Json, end: Json) -> list[int]:
    return [
        sequence
        for partition in reader.partitions(start, end)
        for sequence in seqs(reader.read(partition))
    ]


def test_a_batch_is_what_its_offsets_name_as_far_as_it_is_there(feed: Feed) -> None:
    """UL-29."""
    assert batch(feed) == []
    feed.count(100)
    assert batch(feed, startingOffsets="10", endingOffsets="20") == list(range(10, 21))
    assert batch(feed, startingOffsets="90", endingOffsets="200") == list(range(90, 101))
    assert batch(feed, startingOffsets="latest") == batch(feed, startingOffsets="500") == []


def test_a_batch_from_a_sequence_that_is_gone_is_a_loss_one_from_the_earliest_is_not(
    feed: Feed,
) -> None:
    feed.count(100).purge(before=51)
    with pytest.raises(DataLoss, match="sequences 10 to 50 are gone"):
        batch(feed, startingOffsets="10")
    assert (
        batch(feed, startingOffsets="10", failOnDataLoss="false")
        == batch(feed)
        == list(range(51, 101))
    )


def test_a_range_is_split_as_wide_as_asked_but_not_into_crumbs(feed: Feed) -> None:
    """UL-20."""
    feed.count(100)
    assert (
        len(
            JetStreamReader(
                feed.options(minPartitions="4", rowsPerPartition="10"), MESSAGE_SCHEMA
            ).partitions()
        )
        == 4
    )
    assert (
        len(
            JetStreamReader(
                feed.options(minPartitions="4", rowsPerPartition="60"), MESSAGE_SCHEMA
            ).partitions()
        )
        == 1
    )


def test_the_trigger_decides_which_limit_holds(feed: Feed) -> None:
    """UL-15, UL-31."""
    reader = streaming(feed.put([bytes(1_000)] * 100), maxOffsetsPerTrigger="7")
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMaxRows(7)
    assert reader.latestOffset(start, ReadMaxRows(7))["next"] == 8
    assert 20 < reader.latestOffset(start, ReadMaxBytes(30_000))["next"] <= 31
    assert reader.latestOffset(start, ReadAllAvailable())["next"] == 101


def test_available_now_does_not_see_what_comes_later_and_the_lag_does(feed: Feed) -> None:
    """UL-13, UL-30."""
    reader = streaming(feed.count(10))
    reader.prepareForTriggerAvailableNow()
    feed.count(5)
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["next"] == 11
    assert (reader.reportLatestOffset() or {})["next"] == 16


def test_a_query_on_an_empty_stream_begins_with_the_first_message(feed: Feed) -> None:
    """UL-29."""
    reader = streaming(feed)
    start = reader.initialOffset()
    assert taken(reader, start, reader.latestOffset(start, ReadAllAvailable())) == []
    feed.count(3)
    assert taken(reader, start, reader.latestOffset(start, ReadAllAvailable())) == [1, 2, 3]


def test_a_start_beyond_the_end_is_refused(feed: Feed) -> None:
    with pytest.raises(Misconfigured, match="startingOffsets: 500: the stream ends at 10"):
        streaming(feed.count(10), startingOffsets="500").initialOffset()


def test_a_stream_made_anew_is_a_loss_or_begun_again_by_wish(feed: Feed) -> None:
    """UL-18, UL-28."""
    strict, lenient = streaming(feed.count(100)), streaming(feed, failOnDataLoss="false")
    start = strict.latestOffset(strict.initialOffset(), ReadMaxRows(50))
    planned = strict.latestOffset(start, ReadAllAvailable())
    feed.create_anew().count(70)
    with pytest.raises(DataLoss, match="made anew"):
        strict.latestOffset(start, ReadAllAvailable())
    assert taken(lenient, start, planned) == []  # planned on the old one: nothing of it is left
    assert taken(lenient, planned, lenient.latestOffset(planned, ReadAllAvailable())) == list(
        range(1, 71)
    )


def test_a_range_planned_before_its_messages_went_is_a_loss(feed: Feed) -> None:
    reader = streaming(feed.count(100))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    feed.purge(before=51)
    with pytest.raises(DataLoss, match="sequences 1 to 50 are gone"):
        reader.partitions(start, end)


def test_a_committed_micro_batch_can_be_read_again(feed: Feed) -> None:
    """UL-23."""
    reader = streaming(feed.count(10))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    first = taken(reader, start, end)
    reader.commit(end)
    assert taken(reader, start, end) == first == list(range(1, 11))


def test_what_is_planned_travels_and_says_the_same_elsewhere(feed: Feed) -> None:
    """UL-16."""
    reader = streaming(feed.count(10), minPartitions="2", rowsPerPartition="1")
    reader.prepareForTriggerAvailableNow()
    planned = reader.partitions(
        start := reader.initialOffset(), reader.latestOffset(start, ReadAllAvailable())
    )
    other, travelled = pickle.loads(pickle.dumps((reader, planned)))
    assert [seqs(other.read(one)) for one in travelled] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]


def test_nothing_connects_before_it_is_asked_for_something() -> None:
    """UL-16."""
    unreachable = read_options({"url": "nats://127.0.0.1:1", "stream": "S", "timeoutMs": "300"})
    reader = JetStreamReader(unreachable, MESSAGE_SCHEMA)
    with pytest.raises(BrokerUnavailable):
        reader.partitions()
