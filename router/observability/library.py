"""Log lines of a program that imports us and never called `configure`: handed to Python's `logging`, which the program sets up or not.

    logging.getLogger("router")      the parent of all our loggers; without a set-up Python writes warnings to standard error

A line is text: the event, then `name=value`. A traceback is text too, made here: a handler of the program that draws
tracebacks with the values of local variables would write payloads.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping

from router.masking import bounded, masked, printable, shortened, without_logins

MAX_TRACEBACK = 8192  # characters
MAX_LINE = 65_536  # characters, the traceback included
_CALLER = 3  # frames between `logging` and the line of ours that speaks


class LibraryLogger:
    """What `logs.logger` gives there; of structlog's methods those that we call."""

    def __init__(self, module: str) -> None:
        self._logger = logging.getLogger(module)

    def debug(self, event: str, **facts: object) -> None:
        self._write(logging.DEBUG, event, facts)

    def info(self, event: str, **facts: object) -> None:
        self._write(logging.INFO, event, facts)

    def warning(self, event: str, **facts: object) -> None:
        self._write(logging.WARNING, event, facts)

    def error(self, event: str, **facts: object) -> None:
        self._write(logging.ERROR, event, facts)

    def exception(self, event: str, **facts: object) -> None:
        self._write(logging.ERROR, event, {"exc_info": True, **facts})

    def _write(self, level: int, event: str, facts: Mapping[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, render(event, facts), stacklevel=_CALLER)


def render(event: str, facts: Mapping[str, object]) -> str:
    """The line, and the traceback of its `exc_info` below it; logins and masked keys hidden."""
    told = masked(bounded({name: value for name, value in facts.items() if name != "exc_info"}))
    assert isinstance(told, dict)  # a mapping stays one  # noqa: S101
    words = [event, *(f"{name}={printable(str(value))}" for name, value in told.items())]
    lines = [" ".join(words).replace("\n", "\\n"), *_traceback(facts.get("exc_info"))]
    return shortened(without_logins("\n".join(lines)), MAX_LINE)


def _traceback(exc_info: object) -> list[str]:
    """Without the values of variables, which `traceback` does not show unless it is asked to."""
    match exc_info:
        case BaseException():
            written = traceback.format_exception(exc_info)
        case tuple((_, BaseException() as exc, _)):
            written = traceback.format_exception(exc)
        case None | False:
            return []
        case _:
            written = [traceback.format_exc()]
    return [shortened("".join(written).rstrip("\n"), MAX_TRACEBACK)]
