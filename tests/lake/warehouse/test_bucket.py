"""The warehouse in a bucket of a real S3 server (moto's): commits, lost answers, and a server that
dies.
"""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from tests.support.lake_jobs import Lake, a_body, messages
from tests.support.s3 import Fault, S3Server, an_s3_server


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with an_s3_server() as server:
        yield server


@pytest.fixture
def bucket(server: S3Server, no_jvm: SparkSession) -> Lake:
    server.arm()
    return Lake(no_jvm, server.locate(uuid4().hex))


@pytest.mark.parametrize("table", ["silver", "cuts"])
def test_a_commit_that_was_made_though_its_answer_was_an_error_is_the_writers_own(
    bucket: Lake, server: S3Server, table: str
) -> None:
    """UL-3: the server answers 500, delta-rs puts again, and finds its own commit there."""
    bucket.take(a_body("r-1"))
    server.arm(Fault(part=f"/{table}/_delta_log/", what="error_after"))
    bucket.take(a_body("r-2"))
    assert [cut.progress.last for cut in bucket.told if cut.progress] == [1, 2]
    for name in ("bronze", "silver", "gold_day", "gold_hour"):
        assert len(bucket.rows(name)) == 2, name


def test_two_writers_of_a_bucket_count_each_message_once(bucket: Lake) -> None:
    other = Lake(bucket.spark, bucket.warehouse.location)
    for number in range(1, 3):
        for writer in (bucket, other) if number % 2 else (other, bucket):
            writer.batch(messages([a_body(f"r-{number}")], first=number))
    assert [row["seq"] for row in bucket.rows("silver")] == [1, 2]
    assert sum(row["count"] for row in bucket.rows("gold_day")) == 2
