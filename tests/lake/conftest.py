"""One Spark for all tests that need its own: a session costs more than they do. The jobs' rules
need none.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from router.lake.jobs import ingest
from router.lake.session import create_session
from tests.lake.without_jvm import WithoutJvm
from tests.support.distribution import unit_of
from tests.support.lake_jobs import Lake


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests that need Spark are in one unit: one JVM, and what it has compiled is compiled for
    all of them.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and unit_of(item.nodeid) != "spark":
            raise pytest.UsageError(
                f"{item.nodeid} needs Spark: tests/support/distribution.py must name its "
                "module in the unit `spark`"
            )


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # a JVM that ends before it has warmed up
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    interrupt = signal.getsignal(signal.SIGINT)
    made = create_session("local[2]")
    # pyspark puts its own handler there, and never takes it away: Ctrl-C belongs to pytest
    signal.signal(signal.SIGINT, interrupt)
    yield made
    made.stop()


@pytest.fixture
def quiet_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """For who makes queries fail: what Spark logs then is a page each. A query is started as often
    as a busy machine needs.
    """
    monkeypatch.setattr(ingest, "MOST_STARTS", 20)
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.sparkContext.setLogLevel("ERROR")


@pytest.fixture(scope="session")
def no_jvm() -> SparkSession:
    return cast(SparkSession, WithoutJvm())


@pytest.fixture
def lake(no_jvm: SparkSession, tmp_path: Path) -> Lake:
    return Lake(no_jvm, tmp_path)


@pytest.fixture
def other(lake: Lake) -> Lake:
    """Another process that writes the same warehouse, and began before anything was committed."""
    return Lake(lake.spark, lake.home)
