"""Options that several usage commands share."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from router.lake.warehouse import Warehouse

is_debugging = ContextVar("is_debugging", default=False)  # the command was given --debug
WAREHOUSE = ".router/warehouse"

WarehouseAt = Annotated[
    str, typer.Option("--warehouse", metavar="DIR", help="A directory, or a URI such as s3://bucket/usage.", envvar="USAGE_WAREHOUSE")
]
AsOfCut = Annotated[int | None, typer.Option("--as-of-cut", metavar="N", help="The tables as they were then. Default: now.", min=1)]
Master = Annotated[str | None, typer.Option("--master", metavar="URL", help="Spark's master. Default: local[*].")]


@contextmanager
def open_spark(master: str | None) -> Iterator[SparkSession]:
    """Start Spark, and stop it and its Java process at the end. Raises Misconfigured without PySpark or Java."""
    from router.lake.session import create_session

    logging.getLogger().addFilter(_is_no_interrupt)
    spark = create_session(master)
    if not is_debugging.get():
        spark.sparkContext.setLogLevel("OFF")  # a failure is pages of it; the command says it in a line
    try:
        yield spark
    finally:
        spark.stop()


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """False for py4j's traceback of a Ctrl-C, which it logs although the command handles it."""
    return "KeyboardInterrupt while sending command" not in str(record.msg)


def open_warehouse(location: str) -> Warehouse:
    """Open a warehouse that has commits.

    Raises Misconfigured if it has none, or an older form, and WarehouseUnavailable if its bucket does not answer.
    """
    from router.core.errors import Misconfigured

    try:
        from router.lake.warehouse import Warehouse
    except ImportError as exc:
        raise Misconfigured("pyarrow", "is not installed: pip install 'beamline-router[spark]'") from exc
    warehouse = Warehouse(location)
    warehouse.storage.check()
    warehouse.refuse_old_form()
    if not warehouse.head():
        raise Misconfigured("--warehouse", f"{location} has no commits: fill it with `router usage ingest --warehouse {location}`")
    return warehouse
