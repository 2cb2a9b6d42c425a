"""How a command ends. An error that we know is one line on standard error, never a traceback."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

import typer

from router import masking
from router.cli.output import printable
from router.errors import BrokerUnavailable, Misconfigured, NotFound, RouterError, Unanswered, describe_causes
from router.mailbox.errors import DatabaseUnavailable

OK = 0
NO = 1  # the router said no; a check failed
USAGE = 2  # the command or a setting is wrong
SILENT = 3  # no answer in time: no router, no broker, no database
INTERRUPTED = 130
READER_GONE = 141  # 128 and SIGPIPE: what read the output stopped reading


def run(work: Coroutine[Any, Any, int], *, unavailable: int = SILENT) -> NoReturn:
    """Run a command's work and end with the status it returns; `unavailable` when no broker answers. Traced, if OTEL_* says so."""
    logging.getLogger("asyncio").addFilter(_is_worth_a_line)
    with errors_told(unavailable=unavailable), contextlib.closing(work), _traces():
        raise typer.Exit(asyncio.run(work))


@contextmanager
def errors_told(*, unavailable: int = SILENT) -> Iterator[None]:
    """Known errors become a line and a status."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except RouterError as exc:
        complain(describe_causes(exc))
        raise typer.Exit(_status(exc, unavailable)) from None


def _traces() -> AbstractContextManager[None]:
    if not any(name.startswith("OTEL_") for name in os.environ):
        return contextlib.nullcontext()  # a command that nobody traces need not load what could
    from router.observability.tracing_setup import export_spans

    return export_spans()


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    return "eof_received() has no effect" not in record.msg  # asyncio of every TLS connection that the other side ends


def complain(text: object) -> None:
    """One line on standard error; what it quotes of a message or a file steers no terminal."""
    line = masking.shorten(" ".join(str(text).split()), masking.MAX_COMPLAINT)
    print(f"router: {printable(masking.hide_logins(line))}", file=sys.stderr, flush=True)


def _status(exc: RouterError, unavailable: int) -> int:
    match exc:
        case Misconfigured():
            return USAGE
        case Unanswered() | DatabaseUnavailable():
            return SILENT
        case NotFound():
            return NO
        case BrokerUnavailable():
            return unavailable
        case _:
            return NO
