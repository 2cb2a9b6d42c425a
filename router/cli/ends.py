"""How a command ends. An error that we know is one line on standard error, never a traceback."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from router.errors import BrokerUnavailable, Misconfigured, RouterError, Unanswered

OK = 0
NO = 1  # the router said no; a check failed; the broker is away
USAGE = 2  # the command or a setting is wrong
SILENT = 3  # nobody answered in time
INTERRUPTED = 130


def run(work: Coroutine[Any, Any, int], *, unavailable: int = NO) -> NoReturn:
    """Run a command's work and end with the status it returns; `unavailable` when no broker answers."""
    with errors_told(unavailable=unavailable):
        raise typer.Exit(asyncio.run(work))


@contextmanager
def errors_told(*, unavailable: int = NO) -> Iterator[None]:
    """Known errors become a line and a status."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except RouterError as exc:
        complain(_root(exc))
        raise typer.Exit(_status(exc, unavailable)) from None


def complain(text: object) -> None:
    """One line on standard error."""
    print(f"router: {' '.join(str(text).split())}", file=sys.stderr, flush=True)


def _status(exc: RouterError, unavailable: int) -> int:
    match exc:
        case Misconfigured():
            return USAGE
        case Unanswered():
            return SILENT
        case BrokerUnavailable():
            return unavailable
        case _:
            return NO


def _root(exc: RouterError) -> str:
    """What it says, and what it came from: a supervisor that gave up says too little alone."""
    cause = exc.__cause__
    return f"{exc}: {_root(cause)}" if isinstance(cause, RouterError) else str(exc)
