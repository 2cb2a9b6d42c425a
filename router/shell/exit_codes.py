"""How a command ends: the exit statuses, and one line on standard error instead of a traceback for
errors that we know.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import typer

from router.core import masking
from router.core.errors import (
    BrokerUnavailable,
    Misconfigured,
    NotFound,
    RouterError,
    Unanswered,
    describe_causes,
)
from router.core.whole_files import NO_ROOM
from router.lake.errors import WarehouseUnavailable
from router.mailbox.errors import DatabaseUnavailable
from router.shell.output import printable

OK = 0
NO = 1  # the router refused; a check failed
USAGE = 2  # the command or a setting is wrong
NO_ANSWER = 3  # no answer in time: no router, no broker, no database, no bucket
NOT_AUDITED = 4  # it is done, and its event could not be stored in ROUTER_AUDIT
NOT_WRITTEN = 74  # as EX_IOERR of sysexits.h: what the command writes has no room
INTERRUPTED = 130
OUTPUT_CLOSED = 141  # 128 and SIGPIPE: the reader of the output closed it


def run(work: Coroutine[Any, Any, int], *, unavailable: int = NO_ANSWER) -> int:
    """Run a command's work, and return its exit status; `unavailable` if no broker answers. Traced
    if OTEL_* is set.
    """
    for library in ("asyncio", "psycopg.pool"):
        logging.getLogger(library).addFilter(_is_worth_a_line)
    with report_errors(unavailable=unavailable), contextlib.closing(work), _start_tracing():
        return asyncio.run(work)


@contextmanager
def report_errors(*, unavailable: int = NO_ANSWER) -> Iterator[None]:
    """Turn known errors into a line and an exit status."""
    try:
        yield
    except KeyboardInterrupt as exc:
        if exc.args:  # a sentence about what the interrupt means for what the command wrote
            complain(f"interrupted: {exc.args[0]}")
        raise typer.Exit(INTERRUPTED) from None
    except RouterError as exc:
        complain(describe_causes(exc))
        raise typer.Exit(_choose_status(exc, unavailable)) from None
    except OSError as exc:
        if exc.filename is None or exc.errno in NO_ROOM:
            raise
        complain(f"{exc.filename} cannot be used: {exc.strerror}")
        raise typer.Exit(USAGE) from None


def _start_tracing() -> AbstractContextManager[None]:
    if not any(name.startswith("OTEL_") for name in os.environ):
        return contextlib.nullcontext()  # without tracing, nothing needs to be imported for it
    from router.process.observability.tracing_setup import export_spans

    return export_spans()


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """False for what asyncio logs whenever the other side ends a TLS connection, and for what the
    command's own error says better.
    """
    return not any(
        text in record.msg for text in ("eof_received() has no effect", "error connecting in")
    )


def complain(text: object) -> None:
    """Print one line on standard error. Quoted messages or files cannot steer the terminal."""
    line = masking.shorten(" ".join(str(text).split()), masking.MAX_COMPLAINT)
    print(f"router: {printable(masking.hide_logins(line))}", file=sys.stderr, flush=True)


def refuse(text: object) -> int:
    """Print the line, and return the status of a no."""
    complain(text)
    return NO


def _choose_status(exc: RouterError, unavailable: int) -> int:
    match exc:
        case Misconfigured():
            return USAGE
        case Unanswered() | DatabaseUnavailable() | WarehouseUnavailable():
            return NO_ANSWER
        case NotFound():
            return NO
        case BrokerUnavailable():
            return unavailable
        case _:
            return NO


def choose_final_status(code: int | str | None) -> int | str | None:
    """Return the status to exit with, instead of `code`, if the reader of the output stopped: `router dlq list | head -1`.

    That is no answer of the router and must not look like one: click ends with 1, which here means
    "the answer is no". The status is the one that a shell gives to a process that wrote to a closed
    pipe, 141. The status is 74 if the end of the output has no room.
    """
    # click, inside typer, found a closed pipe; this wrapper is the only sign
    if type(sys.stdout).__name__ == "PacifyFlushWrapper":
        return _discard_output(OUTPUT_CLOSED)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _discard_output(OUTPUT_CLOSED)
    except OSError as exc:
        return complain_of_room(exc)
    return code


def complain_of_room(exc: OSError) -> int:
    """Print that a file or the output has no room, on a full disk, and return the status. Raises
    every other error again.
    """
    if exc.errno not in NO_ROOM:
        raise exc
    try:
        complain(
            f"{exc.filename or 'what the command writes'}: {exc.strerror}: make room; what "
            "is missing was not written"
        )
    except OSError:  # standard error goes to the same disk
        _discard(2)
    return _discard_output(NOT_WRITTEN)


def _discard_output(status: int) -> int:
    _discard(1)
    return status


def _discard(descriptor: int) -> None:
    """Drop what is still buffered for it: otherwise the interpreter would print an error at its
    end, or end with 120.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
