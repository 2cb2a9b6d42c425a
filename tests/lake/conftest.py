"""One Spark for all tests of the lake: a session costs more than the tests that it is for."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from router.lake.session import session
from tests.support.lake_jobs import Lake


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All who need Spark go to one worker of xdist: one JVM, and what it has compiled is compiled for all of them."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # a JVM that ends before it has warmed up
    made = session("local[2]")
    yield made
    made.stop()


@pytest.fixture
def quiet_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """For who makes queries fail: what Spark logs then is a page each."""
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.sparkContext.setLogLevel("ERROR")


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)
