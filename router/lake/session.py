"""The Spark session that the jobs run in, and what to say where there can be none.

`spark-submit --conf` and `spark-defaults.conf` win over what stands here, but for the time zone: every day and minute of
the tables is UTC.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from router.errors import Misconfigured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "2",  # what crosses is small: a micro-batch's partial sums
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 is Spark's own
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
    "spark.sql.maxConcurrentOutputFileWriters": "64",  # a file a day at once, instead of sorting rows by day first
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",  # the log names the files: no job to list them
    "spark.sql.inMemoryColumnarStorage.compressed": "false",  # a batch is kept for seconds, packing it costs more than all else
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.optimizer.enableJsonExpressionOptimization": "false",  # else a body is parsed once for every field of it
    "spark.sql.session.timeZone": "UTC",
}


def session(master: str | None = None, *, name: str = "router-usage") -> SparkSession:
    """A session with the `jetstream` format known. Raises Misconfigured without PySpark, or without Java 17."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as exc:
        raise Misconfigured("pyspark", "is not installed: pip install 'beamline-router[spark]'") from exc
    _look_for_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors run what we run
    builder = SparkSession.builder.appName(name).master(master or "local[*]")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, OSError) as exc:
        raise Misconfigured("master", f"Spark did not start: {exc}") from exc
    spark.sparkContext.setLogLevel("ERROR")
    _register(spark)
    return spark


def _register(spark: SparkSession) -> None:
    from router.lake.source import register

    register(spark)


def _look_for_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    version = java_version(java) if java is not None else None
    if version is None:
        raise Misconfigured("java", f"none was found: install Java {OLDEST_JAVA} or newer, or set JAVA_HOME")
    if version < OLDEST_JAVA:
        raise Misconfigured("java", f"{java} is version {version}: Spark needs {OLDEST_JAVA} or newer; set JAVA_HOME to one")


def java_version(java: str) -> int | None:
    """The major version that a `java` says it is; None when it cannot be run."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr  # noqa: S603
    except OSError:
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None
