"""One Spark for all tests of the jobs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from router.lake.session import session
from tests.support.lake_jobs import Lake


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    made = session("local[2]")
    yield made
    made.stop()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)
