"""Where there can be no Spark the command says why; where spark-submit made the driver, what it was
told holds.
"""

import os
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from router.lake.session import _make_settings
from tests.support.cli import CommandResult, router
from tests.support.lake_gold import Use, a_warehouse


def reported(home: Path, **environ: str) -> CommandResult:
    """A report that wants Spark."""
    a_warehouse(home / "warehouse", [Use()])
    return router(
        "usage",
        "report",
        "--engine",
        "spark",
        "--warehouse",
        str(home / "warehouse"),
        environ=environ,
    )


def a_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


def test_no_java_is_told_with_what_to_do(tmp_path: Path) -> None:
    ended = reported(tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    assert (ended.status, ended.err) == (
        2,
        "router: java: none was found: install Java 17 or newer, or set JAVA_HOME\n",
    )


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_a_java_that_is_too_old_is_told_with_its_version(tmp_path: Path, version: str) -> None:
    java = a_java(tmp_path, version)
    ended = reported(tmp_path, JAVA_HOME=str(tmp_path))
    assert ended.status == 2
    assert str(java) in ended.err
    assert "needs 17 or newer" in ended.err


def test_a_missing_pyspark_is_told_with_its_extra(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ImportError")
    ended = reported(tmp_path, PYTHONPATH=os.pathsep.join((str(tmp_path), os.getcwd())))
    assert ended.status == 2
    assert "pip install 'beamline-router[spark]'" in ended.err


@pytest.mark.slow  # the first test that needs Spark starts it
@pytest.mark.timeout(120)
def test_what_spark_submit_was_told_holds_but_for_the_time_zone(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SparkContext._jvm is not None
    told = {
        "spark.master": "spark://cluster:7077",
        "spark.sql.shuffle.partitions": "7",
        "spark.sql.session.timeZone": "Asia/Tokyo",
    }
    properties = SparkContext._jvm.java.lang.System
    before = {name: properties.getProperty(name) for name in told}
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    try:
        for name, value in told.items():
            properties.setProperty(name, value)
        kept = _make_settings(None)
        assert [kept.get(name) for name in told] == ["spark://cluster:7077", "7", "UTC"]
        assert _make_settings("local[3]").get("spark.master") == "local[3]"
    finally:
        for name, value in before.items():
            properties.setProperty(name, value) if value is not None else properties.clearProperty(
                name
            )
