"""Log lines in a program that imports the router and never calls `configure`: they go to Python's `logging`.

    logging.getLogger("router")      the parent of all loggers here; the program configures it, else Python writes warnings to stderr

A line is text: the event, then `name=value`. The traceback is formatted here as text, because a handler of the program could
print the values of local variables, and with them payloads.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping

from router.core.masking import hide_logins, mask_secrets, printable, shorten, truncate

MAX_TRACEBACK = 8192  # characters
MAX_LINE = 65_536  # characters, the traceback included
_CALLER = 3  # stack frames between `logging` and the line that logs


class LibraryLogger:
    """What `logs.logger` returns in such a program: the methods of structlog that the router calls."""

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
    """The line, and below it the traceback of its `exc_info`; logins and masked keys are hidden."""
    visible = mask_secrets(truncate({name: value for name, value in facts.items() if name != "exc_info"}))
    assert isinstance(visible, dict)  # a mapping stays one  # noqa: S101
    words = [event, *(f"{name}={printable(str(value))}" for name, value in visible.items())]
    lines = [" ".join(words).replace("\n", "\\n"), *_traceback(facts.get("exc_info"))]
    return shorten(hide_logins("\n".join(lines)), MAX_LINE)


def _traceback(exc_info: object) -> list[str]:
    """The traceback without the values of variables."""
    match exc_info:
        case BaseException():
            lines = traceback.format_exception(exc_info)
        case tuple((_, BaseException() as exc, _)):
            lines = traceback.format_exception(exc)
        case None | False:
            return []
        case _:
            lines = [traceback.format_exc()]
    return [shorten("".join(lines).rstrip("\n"), MAX_TRACEBACK)]
