"""Files of before a column came: still part of their table, the column null in them."""

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from router.lake.jobs.maintenance import compact
from tests.support.lake_commits import replace_files
from tests.support.lake_jobs import Lake, a_body

CAME_LATER = "trace_id"


def as_written_before(lake: Lake, table: str) -> None:
    """The table's only file as a version wrote it that did not know the column."""
    (file,) = lake.warehouse.files(table)
    home = lake.warehouse.storage.resolve("")
    old = file.path.replace("/day=", "/of-before/day=")
    Path(home + old).parent.mkdir(parents=True)
    pq.write_table(pq.ParquetFile(home + file.path).read().drop_columns([CAME_LATER]), home + old)
    replace_files(lake.warehouse, table, [file], [replace(file, path=old)])


@pytest.fixture(scope="module")
def grown(no_jvm: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """An event in an old file, two in a new one; the old one came again with the second batch."""
    lake = Lake(no_jvm, tmp_path_factory.mktemp("grown"))
    lake.take(a_body("r-1", trace_id="forgotten"))
    as_written_before(lake, "silver")
    lake.take(a_body("r-1", trace_id="t-1"), a_body("r-2", trace_id="t-2"), a_body("r-3"))
    return lake


def test_an_old_file_s_rows_have_null_and_are_known_when_they_come_again(grown: Lake) -> None:
    """UL-6."""
    assert [(row["request_id"], row[CAME_LATER]) for row in grown.rows("silver")] == [
        ("r-1", None),
        ("r-2", "t-2"),
        ("r-3", None),
    ]
    assert [row["first_seq"] for row in grown.rows("duplicates")] == [1]


def test_compaction_makes_one_file_of_both_with_every_column(grown: Lake) -> None:
    """UL-6."""
    before = grown.rows("silver")
    assert compact(grown.warehouse).files_after
    days = {file.bucket for file in grown.warehouse.files("silver")}
    assert len(grown.warehouse.files("silver")) == len(days)
    assert grown.rows("silver") == before


def test_duckdb_reads_both_by_name(grown: Lake) -> None:
    query = "select request_id, trace_id from read_parquet($1, union_by_name = true) order by seq"
    assert duckdb.execute(query, [grown.warehouse.paths("silver")]).fetchall() == [
        ("r-1", None),
        ("r-2", "t-2"),
        ("r-3", None),
    ]
