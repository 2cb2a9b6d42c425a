"""The frame of the commands on a warehouse: `--debug`, and one line instead of a traceback where the warehouse's place fails.

Arrow, delta-rs and Spark raise errors of many kinds for a bucket that does not answer. Which one it was is not read from their text: the
bucket is asked again, and its answer is the error of the command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from router.core.errors import RouterError
from router.core.whole_files import FileNotWritten
from router.lake.commands.options import is_debugging
from router.shell.command_frame import CommandSession, command
from router.shell.session import load_settings

if TYPE_CHECKING:
    from router.config import Settings

Debug = Annotated[bool, typer.Option("--debug", help="Print the traceback of an error, and Spark's own messages.")]
DEBUG_PARAMETER = Parameter("debug", Parameter.KEYWORD_ONLY, default=False, annotation=Debug)


def warehouse_command(load: Callable[..., Settings] = load_settings) -> Callable[[Callable[..., Any]], Callable[..., None]]:
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
    """Raise a RouterError for whatever the warehouse's place does. With `debug` the traceback is printed first."""
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
    from router.lake.errors import WarehouseFailed

    if isinstance(exc, BrokenPipeError) or not _may_be_of_the_place(exc):
        return None
    try:
        from router.lake.warehouse.storage import Storage

        Storage(warehouse).check()
    except RouterError as found:
        return found
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
    import traceback

    traceback.print_exception(exc, file=sys.stderr)
