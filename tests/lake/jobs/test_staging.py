"""What a range becomes where it is read, on a real stream and without Spark."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from router.delivery.wire.connection import head_of
from router.lake.files import read_columns
from router.lake.jobs.staging import (
    EVENTS,
    FILES,
    StagedRange,
    StagedRow,
    StagingOptions,
    StagingReader,
    decode_events,
    decode_files,
)
from router.lake.source.offset import DataLoss
from router.lake.tables.arrow import MESSAGE
from router.lake.warehouse import Warehouse
from tests.support.lake import Feed, a_feed
from tests.support.lake_jobs import a_body


@pytest.fixture(scope="module")
def feed() -> Iterator[Feed]:
    with a_feed() as (_, feed):
        yield feed.put(
            [a_body("r-1"), b"{broken", a_body("r-3"), a_body("r-4")],
            head=head_of({"trace_id": "t"}),
        )


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path))


def staged(
    feed: Feed, warehouse: Warehouse, start: int, end: int, **options: str
) -> list[StagedRow]:
    """As Spark would have it: from one offset to another."""
    reader = StagingReader(
        StagingOptions(warehouse=warehouse.location, tasks=2), feed.options(**options)
    )
    offset = reader.initialOffset()
    partitions = reader.partitions({**offset, "next": start}, {**offset, "next": end})
    return [row for partition in partitions for row in reader.read(partition)]


def landed(
    feed: Feed, warehouse: Warehouse, start: int, end: int, **options: str
) -> list[StagedRange]:
    return [
        decode_files(body)
        for _, kind, body in staged(feed, warehouse, start, end, **options)
        if kind == FILES
    ]


def test_every_message_is_in_bronze_what_is_no_event_in_quarantine_and_events_go_to_the_tasks_of_their_buckets(
    feed: Feed, warehouse: Warehouse
) -> None:
    rows = staged(feed, warehouse, 1, 5)
    (one,) = (decode_files(body) for _, kind, body in rows if kind == FILES)
    seqs = [
        sorted(read_columns(warehouse, table, files, ["seq"])["seq"].to_pylist())
        for table, files in (("bronze", one.bronze), ("quarantine", one.quarantine))
    ]
    assert seqs == [[1, 2, 3, 4], [2]]
    dealt = [
        (task, event)
        for task, kind, body in rows
        if kind == EVENTS
        for event in decode_events(body).to_pylist()
    ]
    assert sorted(event["request_id"] for _, event in dealt) == ["r-1", "r-3", "r-4"]
    assert all(event["id_high"] % 2 == task for task, event in dealt)


def test_bronze_is_the_messages_as_the_stream_holds_them(feed: Feed, warehouse: Warehouse) -> None:
    """UL-2."""
    (one,) = landed(feed, warehouse, 1, 5)
    kept = read_columns(warehouse, "bronze", one.bronze, MESSAGE.names).to_pylist()
    kept.sort(key=lambda row: row["seq"])
    assert kept == feed.rows(1, 5)
    assert kept[1]["headers"] == [("trace_id", "t")]


def test_what_landed_is_in_no_table(feed: Feed, warehouse: Warehouse) -> None:
    """UL-3."""
    landed(feed, warehouse, 1, 5)
    assert not warehouse.files("bronze")


def test_a_range_that_lands_twice_changes_nothing(feed: Feed, warehouse: Warehouse) -> None:
    (first,), (second,) = landed(feed, warehouse, 1, 5), landed(feed, warehouse, 1, 5)
    assert {file.path for file in first.bronze}.isdisjoint(file.path for file in second.bronze)


def test_what_the_log_has_does_not_land_again_wherever_a_checkpoint_begins(
    feed: Feed, warehouse: Warehouse
) -> None:
    """UL-3."""
    (one,) = landed(feed, warehouse, 1, 5, startingOffsets="3")
    assert [(file.min_seq, file.max_seq) for file in one.bronze] == [(3, 4)]


def test_a_first_batch_ends_where_tables_end_that_are_ahead(
    feed: Feed, warehouse: Warehouse
) -> None:
    """UL-3: they were committed before silver, and the process died between."""
    reader = StagingReader(
        StagingOptions(warehouse=warehouse.location, tasks=2, first_end=2), feed.options()
    )
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadAllAvailable())
    assert (
        start["next"],
        first["next"],
        reader.latestOffset(first, ReadAllAvailable())["next"],
    ) == (1, 3, 5)


def test_a_stream_that_was_made_anew_beside_an_ingest_is_no_empty_batch(
    feed: Feed, warehouse: Warehouse
) -> None:
    """UL-28. Batches were empty, and events aged out unread, where losses are accepted."""
    reader = StagingReader(
        StagingOptions(warehouse=warehouse.location, tasks=2), feed.options(failOnDataLoss="false")
    )
    before = {**reader.initialOffset(), "next": 1001, "created": "2026-01-01T00:00:00Z"}
    with pytest.raises(DataLoss, match="made anew"):
        reader.latestOffset(before, reader.getDefaultReadLimit())
    with pytest.raises(DataLoss, match="made anew"):
        reader.partitions(before, reader.initialOffset())
