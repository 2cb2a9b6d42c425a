"""`sys.exit()` in a function of a user fails one call, and does not end the process.

    with contain_exit:
        answer = handler(message)           SystemExit -> HandlerExited, which is an exception like any other

What the caller itself is told passes: a cancellation, Ctrl-C, the end of a generator. A function that awaits a task which other code
cancelled raises CancelledError, too, and its caller is not cancelled: `contain_cancellation` makes a HandlerExited of that.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class HandlerExited(Exception):
    """A user's function raised what would have ended its caller; the text names it."""


class _ExitContainment:
    """Stateless: one serves all calls."""

    def __enter__(self) -> None: ...

    def __exit__(self, _: type[BaseException] | None, exc: BaseException | None, __: TracebackType | None) -> None:
        """Raises HandlerExited."""
        if isinstance(exc, SystemExit):
            raise HandlerExited(f"SystemExit: {exc}") from exc


class _CancellationContainment(_ExitContainment):
    """As the other, and it contains a cancellation that is not the current task's."""

    def __exit__(self, _: type[BaseException] | None, exc: BaseException | None, __: TracebackType | None) -> None:
        """Raises HandlerExited."""
        if isinstance(exc, asyncio.CancelledError) and not is_cancelled():
            raise HandlerExited("a task that it awaited was cancelled") from exc
        super().__exit__(_, exc, __)


def is_cancelled() -> bool:
    """Whether the current task is told to stop, by a deadline or a drain. False where no loop runs."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


contain_exit = _ExitContainment()
contain_cancellation = _CancellationContainment()
