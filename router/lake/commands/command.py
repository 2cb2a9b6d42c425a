"""The frame of the commands on a warehouse: their options, and one line instead of a traceback
where the warehouse's place fails.

Arrow, delta-rs and Spark raise errors of many kinds for a bucket that does not answer. Which one it
was is not read from their text: the bucket is asked again, and its answer is the error of the
command.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from router.config import Settings
from router.core.errors import Misconfigured, RouterError
from router.core.whole_files import FileNotWritten
from router.lake.errors import WarehouseFailed
from router.lake.session import create_session
from router.shell.command_frame import CommandSession, command
from router.shell.session import load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from router.lake.warehouse import Warehouse

# -- The frame, with `--debug`.

Debug = Annotated[
    bool, typer.Option("--debug", help="Print the traceback of an error, and Spark's own messages.")
]
DEBUG_PARAMETER = Parameter("debug", Parameter.KEYWORD_ONLY, default=False, annotation=Debug)


def warehouse_command(
    load: Callable[..., Settings] = load_settings,
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Return the decorator of a command that has the option `--warehouse`."""

    def decorate(work: Callable[..., Any]) -> Callable[..., None]:
        own = signature(work, eval_str=True)

        @wraps(work)
        def run(session: CommandSession, *, debug: bool, warehouse: str, **given: Any) -> Any:
            with explain_failures(warehouse, debug=debug):
                return work(session, warehouse=warehouse, **given)

        run.__signature__ = Signature([*own.parameters.values(), DEBUG_PARAMETER])  # type: ignore[attr-defined]
        return command(load)(run)

    return decorate


@contextmanager
def explain_failures(warehouse: str, *, debug: bool) -> Iterator[None]:
    """Raise a RouterError for whatever the warehouse's place does. With `debug` the traceback is
    printed first.
    """
    is_debugging.set(debug)
    try:
        yield
    except Exception as exc:
        if debug:
            _print_traceback(exc)
        if (explained := _explain(exc, warehouse)) is None:
            raise
        raise explained from None


def _explain(exc: Exception, warehouse: str) -> RouterError | None:
    """None: the error is what it is."""
    if isinstance(exc, BrokenPipeError) or not _may_be_of_the_place(exc):
        return None
    try:
        from router.lake.warehouse.storage import Storage

        Storage(warehouse).check()
    except RouterError as error:
        return error
    return None if isinstance(exc, RouterError) else WarehouseFailed(f"{warehouse}: {exc}")


def _may_be_of_the_place(exc: Exception) -> bool:
    if isinstance(exc, FileNotWritten):
        return False
    if isinstance(exc, RouterError):  # one that says that the extra is not installed, too
        return exc.code in ("ingest_failed", "conflict")
    from deltalake.exceptions import DeltaError
    from pyarrow import ArrowException

    return isinstance(exc, (OSError, DeltaError, ArrowException))


def _print_traceback(exc: Exception) -> None:
    traceback.print_exception(exc, file=sys.stderr)


# -- Options that several commands share, and what they open.

is_debugging = ContextVar("is_debugging", default=False)  # the command was given --debug
WAREHOUSE = ".router/warehouse"

WarehouseAt = Annotated[
    str,
    typer.Option(
        "--warehouse",
        metavar="DIR",
        help="A directory, or a URI such as s3://bucket/usage.",
        envvar="USAGE_WAREHOUSE",
    ),
]
AsOfCut = Annotated[
    int | None,
    typer.Option(
        "--as-of-cut", metavar="N", help="The tables as they were then. Default: now.", min=1
    ),
]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark's master. Default: local[*].")
]


@contextmanager
def open_spark(master: str | None) -> Iterator[SparkSession]:
    """Start Spark, and stop it and its Java process at the end. Raises Misconfigured without
    PySpark or Java.
    """
    logging.getLogger().addFilter(_is_no_interrupt)
    spark = create_session(master)
    if not is_debugging.get():
        # a failure is pages of it; the command says it in a line
        spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """False for py4j's traceback of a Ctrl-C, which it logs although the command handles it."""
    return "KeyboardInterrupt while sending command" not in str(record.msg)


def open_warehouse(location: str) -> Warehouse:
    """Open a warehouse that has commits.

    Raises Misconfigured if it has none, or an older form, and WarehouseUnavailable if its bucket
    does not answer.
    """
    try:
        from router.lake.warehouse import Warehouse
    except ImportError as exc:
        raise Misconfigured(
            "pyarrow", "is not installed: pip install 'beamline-router[spark]'"
        ) from exc
    warehouse = Warehouse(location)
    warehouse.storage.check()
    warehouse.refuse_old_form()
    if not warehouse.head():
        raise Misconfigured(
            "--warehouse",
            f"{location} has no commits: fill it with `router usage ingest --warehouse {location}`",
        )
    return warehouse
