"""What a range becomes where it is read, on a real stream and without Spark."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from router.delivery.connection import head_of
from router.lake.files import read_columns
from router.lake.jobs.staging import StagedRange
from router.lake.jobs.staging_file import read_staged, remove_staging
from router.lake.jobs.staging_source import StagingReader, decode_range
from router.lake.tables.arrow import MESSAGE
from router.lake.warehouse import Warehouse
from tests.support.lake import Feed, a_feed
from tests.support.lake_jobs import a_body


@pytest.fixture(scope="module")
def feed() -> Iterator[Feed]:
    with a_feed() as (_, feed):
        yield feed.put([a_body("r-1"), b"{broken", a_body("r-3"), a_body("r-4")], head=head_of({"trace_id": "t"}))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path))


def landed(feed: Feed, warehouse: Warehouse, start: int, end: int, **options: str) -> list[StagedRange]:
    """As Spark would have it: from one offset to another."""
    reader = StagingReader(warehouse.location, feed.options(**options))
    offset = reader.initialOffset()
    partitions = reader.partitions({**offset, "next": start}, {**offset, "next": end})
    return [decode_range(row) for partition in partitions for (row,) in reader.read(partition)]


def test_every_message_is_in_bronze_and_what_is_none_in_quarantine_and_events_are_put_aside(feed: Feed, warehouse: Warehouse) -> None:
    (one,) = landed(feed, warehouse, 1, 5)
    seqs = [
        read_columns(warehouse, table, files, ["seq"])["seq"].to_pylist()
        for table, files in (("bronze", one.bronze), ("quarantine", one.quarantine))
    ]
    assert seqs == [[1, 2, 3, 4], [2]]
    assert read_staged(warehouse, one.staging_path, ["request_id"])["request_id"].to_pylist() == ["r-1", "r-3", "r-4"]


def test_bronze_is_the_messages_as_the_stream_holds_them(feed: Feed, warehouse: Warehouse) -> None:
    """UL-2."""
    (one,) = landed(feed, warehouse, 1, 5)
    kept = read_columns(warehouse, "bronze", one.bronze, MESSAGE.names).to_pylist()
    assert kept == feed.rows(1, 5)
    assert kept[1]["headers"] == [("trace_id", "t")]


def test_what_landed_is_in_no_table(feed: Feed, warehouse: Warehouse) -> None:
    """UL-3."""
    landed(feed, warehouse, 1, 5)
    assert not warehouse.files("bronze")


def test_a_range_that_lands_twice_changes_nothing(feed: Feed, warehouse: Warehouse) -> None:
    (first,), (second,) = landed(feed, warehouse, 1, 5), landed(feed, warehouse, 1, 5)
    assert {file.path for file in first.bronze}.isdisjoint(file.path for file in second.bronze)


def test_what_the_log_has_does_not_land_again_wherever_a_checkpoint_begins(feed: Feed, warehouse: Warehouse) -> None:
    """UL-3."""
    (one,) = landed(feed, warehouse, 1, 5, startingOffsets="3")
    assert [(file.min_seq, file.max_seq) for file in one.bronze] == [(3, 4)]


def test_what_was_put_aside_is_gone_when_it_is_discarded(feed: Feed, warehouse: Warehouse) -> None:
    (one,) = landed(feed, warehouse, 1, 5)
    remove_staging(warehouse, one.staging_path)
    assert not warehouse.storage.list_names("_staging")
