"""A function of a user that ends by more than an exception: `sys.exit()` in it fails one call, and not the process.

    with contain_exit:
        answer = handler(message)           SystemExit -> HandlerExited, which is an exception like any other

What the caller itself is told passes: a cancellation, Ctrl-C, the end of a generator.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

PASSED_ON = (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)


class HandlerExited(Exception):
    """A user's function raised what would have ended the process; the text names it."""


class _ExitContainment:
    """It has no state, so one serves all calls."""

    def __enter__(self) -> None: ...

    def __exit__(self, _: type[BaseException] | None, exc: BaseException | None, __: TracebackType | None) -> None:
        """Raises HandlerExited."""
        if exc is not None and not isinstance(exc, PASSED_ON):
            raise HandlerExited(f"{type(exc).__name__}: {exc}") from exc


contain_exit = _ExitContainment()
