"""The Spark session that the jobs run in, and what to say where there can be none.

Under `spark-submit` its `--master`, its `--conf` and `spark-defaults.conf` win over what stands here, but for the time zone:
every day and minute of the tables is UTC.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from router.errors import Misconfigured
from router.lake import jvm

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "2",  # what crosses is small: a micro-batch's partial sums
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",  # the log names the files: no job to list them
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_LEAN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # the work is done in Python: a JVM that plans it must not take a core to improve itself
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # what spark-submit tells the driver that it starts


def session(master: str | None = None, *, name: str = "router-usage") -> SparkSession:
    """A session with the `jetstream` format known; without a master spark-submit's, else local[*].

    Raises Misconfigured where there can be none.
    """
    look_for_spark()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors run what we run
    try:
        with jvm.remembered():
            spark = SparkSession.builder.config(conf=_settings(master, name)).getOrCreate()
    except (PySparkException, OSError) as exc:
        raise Misconfigured("master", f"Spark did not start: {exc}") from exc
    spark.sparkContext.setLogLevel("ERROR")
    _register(spark)
    return spark


def look_for_spark() -> None:
    """Look before anything is started. Raises Misconfigured without PySpark, and without Java 17."""
    try:
        import pyspark  # noqa: F401
    except ImportError as exc:
        raise Misconfigured("pyspark", "is not installed: pip install 'beamline-router[spark]'") from exc
    _look_for_java()


def _settings(master: str | None, name: str) -> SparkConf:
    """A builder's settings win over all others, so they begin with what was said elsewhere."""
    from pyspark import SparkConf, SparkContext

    if _SUBMITTED in os.environ:
        SparkContext._ensure_initialized()  # what spark-submit was told stands in the JVM
    settings = SparkConf()
    quiet = f"-Dlog4j2.configurationFile={files('router.lake').joinpath('log4j2.properties')}"
    ours = {"spark.app.name": name, "spark.master": "local[*]", "spark.driver.extraJavaOptions": f"{quiet} {_LEAN}", **_SETTINGS}
    for key, value in ours.items():
        settings.setIfMissing(key, value)
    if master is not None:
        settings.setMaster(master)
    return settings.set("spark.sql.session.timeZone", "UTC")


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
