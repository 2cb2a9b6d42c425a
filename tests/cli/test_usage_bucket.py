"""`router usage` on a warehouse in a bucket: what fails there is one line, and `--debug` shows the
traceback.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from tests.lake.without_jvm import WithoutJvm
from tests.support.cli import call_command
from tests.support.lake_gold import Use, a_warehouse
from tests.support.lake_jobs import NOON, Lake, a_body
from tests.support.s3 import S3Server, an_s3_server

REPORT = ("usage", "report", "--warehouse")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with an_s3_server() as server:
        yield server


@pytest.mark.slow  # a server that takes one request at a time, and some hundred requests
@pytest.mark.timeout(600)  # on a machine that is busy they take three minutes
def test_tables_in_a_bucket_are_reported_sealed_compacted_and_vacuumed(server: S3Server) -> None:
    """UL-10. What an ingest does there is `tests/lake/stories/test_in_a_bucket`."""
    home, at = server.locate("tables"), ("--warehouse", server.locate("tables"))
    lake = Lake(cast(SparkSession, WithoutJvm()), home)
    for number in range(3):
        lake.take(a_body(f"r-{number}", cost="0.5"))
    assert _count_and_cost(home, server) == (3, "1.500000000")
    day = str(NOON.date())
    for command in (
        ("seal", *at, "--from", day),
        ("compact", *at),
        ("vacuum", *at, "--older-than", "1"),
        ("seal", *at, "--verify"),
    ):
        told = call_command("usage", *command, environ=server.environment)
        assert told.status == 0, told.err
    assert _count_and_cost(home, server) == (3, "1.500000000")


def _count_and_cost(home: str, server: S3Server) -> tuple[int, str]:
    totals = call_command(*REPORT, home, "--json", environ=server.environment).json["totals"]
    return totals["count"], totals["cost"]


def test_an_endpoint_that_does_not_answer_is_told_in_a_line(server: S3Server) -> None:
    told = call_command(
        *REPORT,
        server.locate("usage"),
        environ={**server.environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"},
    )
    assert (told.status, told.err.count("\n"), told.out) == (3, 1, "")
    assert told.err.startswith(f"router: {server.locate('usage')}: ")
    assert "127.0.0.1" in told.err


def test_a_wrong_key_is_told_in_a_line(server: S3Server) -> None:
    told = call_command(
        *REPORT,
        server.locate("usage"),
        environ={**server.environment, "AWS_ACCESS_KEY_ID": "another"},
    )
    assert (told.status, told.err.count("\n")) == (3, 1)
    assert "ACCESS_DENIED" in told.err


def test_a_bucket_that_is_not_there_is_told_with_its_server(server: S3Server) -> None:
    told = call_command(*REPORT, "s3://no-such-bucket/usage", environ=server.environment)
    assert told.status == 2
    assert told.err == (
        "router: --warehouse: s3://no-such-bucket/usage: there is no bucket "
        f"no-such-bucket at {server.url}\n"
    )


def test_a_warehouse_that_is_empty_is_told_as_on_a_disk(server: S3Server) -> None:
    told = call_command(*REPORT, server.locate("empty"), environ=server.environment)
    assert told.status == 2
    assert "has no commits: fill it with `router usage ingest --warehouse s3://" in told.err


def test_the_traceback_is_there_if_it_is_asked_for(server: S3Server) -> None:
    told = call_command(*REPORT, "s3://no-such-bucket/usage", "--debug", environ=server.environment)
    assert told.status == 2
    assert "Traceback" in told.err
    assert told.err.endswith(f"there is no bucket no-such-bucket at {server.url}\n")


def test_a_file_that_another_program_deleted_is_told_by_its_name(tmp_path: Path) -> None:
    a_warehouse(tmp_path, [Use()])
    (gone,) = tmp_path.glob("gold_day/1/day=*/*.parquet")
    gone.unlink()
    told = call_command(*REPORT, str(tmp_path))
    assert (told.status, told.err.count("\n")) == (1, 1)
    assert gone.name in told.err
