"""Create the Spark session for the jobs, and say what is missing if there can be none. Its Java
process ends with the process that started it.

Under `spark-submit` its `--master`, its `--conf` and `spark-defaults.conf` override the settings
below, except the time zone: every day and minute of the tables is UTC.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from router.core.errors import Misconfigured

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession


# -- Stop the Java process of a Spark session when the process that started it ends.
#
# PySpark starts Java and keeps no reference to it until it answers. An interrupt in those seconds
# deletes the file into which Java writes its port: Java fails, keeps its threads, and stays for
# ever with our standard output open. So this module keeps the process from the moment it is
# created, kills it at once if the start is interrupted, and waits for it when our process ends.
#
# with track_java():                   # replaces PySpark's Popen during the start
#     spark = SparkSession.builder…    # interrupted: Java is killed here
# …                                    # later: our process closes Java's standard input at exit,
#                                      and waits


END_S = 10.0  # that Java may take to end by itself


@contextlib.contextmanager
def track_java() -> Iterator[None]:
    """Stop what PySpark starts in this block: now if the block fails, else when this process ends."""
    from pyspark import java_gateway

    started: list[subprocess.Popen[bytes]] = []

    class TrackedPopen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            # before the process exists: an interrupt may come as soon as it does
            started.append(self)
            super().__init__(*arguments, **options)

    launcher: Any = java_gateway  # it returns its process only if all went well
    theirs, launcher.Popen = launcher.Popen, TrackedPopen
    try:
        yield
    except BaseException:  # also Ctrl-C: no JVM may outlive the failed start
        for process in started:
            _kill(process)
        raise
    finally:
        launcher.Popen = theirs
    for process in started:
        atexit.register(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Java ends when its standard input closes; kill it if it does not."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(END_S)
    except BaseException:  # too slow, or another Ctrl-C
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # an interrupt may have come before it was started
    if getattr(process, "pid", None) is not None:
        process.kill()
        process.wait()


# -- Create the Spark session for the jobs, and say what is missing if there can be none.


OLDEST_JAVA = 17

# the log names the files: Spark needs no job to list them
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "2",  # little is shuffled: a micro-batch's partial sums
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
# Python does the work: the JVM plans it, and must not use a core to optimise itself
_LEAN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # spark-submit sets it for the driver that it starts


def create_session(master: str | None = None) -> SparkSession:
    """Create a session that knows the `jetstream` format. Without `master`: spark-submit's, else
    local[*].

    Raises Misconfigured if PySpark or Java is missing, or if Spark does not start.
    """
    check_spark()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors use the same Python
    try:
        with track_java():
            spark = SparkSession.builder.config(conf=_make_settings(master)).getOrCreate()
    except (PySparkException, OSError) as exc:
        raise Misconfigured("master", f"Spark did not start: {exc}") from exc
    spark.sparkContext.setLogLevel("ERROR")
    _register(spark)
    return spark


def check_spark() -> None:
    """Check before anything is started. Raises Misconfigured without PySpark, and without Java 17."""
    try:
        import pyspark  # noqa: F401
    except ImportError as exc:
        raise Misconfigured(
            "pyspark", "is not installed: pip install 'beamline-router[spark]'"
        ) from exc
    _check_java()


def _make_settings(master: str | None) -> SparkConf:
    """A builder's settings override all others, so start with those that were set elsewhere."""
    from pyspark import SparkConf, SparkContext

    if _SUBMITTED in os.environ:
        SparkContext._ensure_initialized()  # the settings of spark-submit are in the JVM
    settings = SparkConf()
    quiet = f"-Dlog4j2.configurationFile={files('router.lake').joinpath('log4j2.properties')}"
    ours = {
        "spark.app.name": "router-usage",
        "spark.master": "local[*]",
        "spark.driver.extraJavaOptions": f"{quiet} {_LEAN}",
        **_SETTINGS,
    }
    for key, value in ours.items():
        settings.setIfMissing(key, value)
    if master is not None:
        settings.setMaster(master)
    return settings.set("spark.sql.session.timeZone", "UTC")


def _register(spark: SparkSession) -> None:
    from router.lake.source import register

    register(spark)


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    version = read_java_version(java) if java is not None else None
    if version is None:
        raise Misconfigured(
            "java", f"none was found: install Java {OLDEST_JAVA} or newer, or set JAVA_HOME"
        )
    if version < OLDEST_JAVA:
        raise Misconfigured(
            "java",
            (
                f"{java} is version {version}: Spark needs {OLDEST_JAVA} or newer; set "
                "JAVA_HOME to one"
            ),
        )


def read_java_version(java: str) -> int | None:
    """Return the major version that a `java` reports; None if it cannot be run."""
    try:
        output = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except OSError:
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(version[1]) if version else None
