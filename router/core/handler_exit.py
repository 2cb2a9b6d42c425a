"""What would end a process fails one call when a user's function raises it: `sys.exit()`, `raise
KeyboardInterrupt`.

    with contain_exit:
        answer = handler(message)           SystemExit -> HandlerExited, which is an exception like
                                            any other

What the caller itself is told passes: a cancellation, Ctrl-C, the end of a generator. Ctrl-C and
the end of a generator reach a function from outside, wherever it is; the same exception is the
function's own where a `raise` statement of it raised it. A function that awaits a task which other
code cancelled raises CancelledError, too, and its caller is not cancelled: `contain_cancellation`
makes a HandlerExited of that.
"""

from __future__ import annotations

import asyncio
import dis
import signal
from functools import partial
from types import CodeType, TracebackType

_RAISE = dis.opmap["RAISE_VARARGS"]


class HandlerExited(Exception):
    """A user's function raised what would have ended its caller; the text names it."""


class _ExitContainment:
    """Stateless: one serves all calls."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, _: type[BaseException] | None, exc: BaseException | None, __: TracebackType | None
    ) -> None:
        """Raises HandlerExited."""
        if (
            exc is not None
            and not isinstance(exc, Exception | asyncio.CancelledError)
            and not is_from_outside(exc)
        ):
            raise build_exit_error(exc) from exc


class _CancellationContainment(_ExitContainment):
    """As the other, and it contains a cancellation that is not the current task's."""

    def __exit__(
        self, _: type[BaseException] | None, exc: BaseException | None, __: TracebackType | None
    ) -> None:
        """Raises HandlerExited."""
        if isinstance(exc, asyncio.CancelledError) and not is_cancelled():
            raise HandlerExited("a task that it awaited was cancelled") from exc
        super().__exit__(_, exc, __)


def build_exit_error(exc: BaseException) -> HandlerExited:
    return HandlerExited(f"{type(exc).__name__}: {text_of(exc)}")


def text_of(exc: BaseException) -> str:
    """The exception's own text; empty where that text raises."""
    try:
        return str(exc)
    except Exception:  # the author's class may raise anything
        return ""


def is_cancelled() -> bool:
    """Whether the current task is told to stop, by a deadline or a drain. False where no loop runs."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def is_from_outside(exc: BaseException) -> bool:
    """Whether it is the process' Ctrl-C, or the end of a generator, and not the function's own."""
    return isinstance(exc, KeyboardInterrupt | GeneratorExit) and not _is_raised_by_function(exc)


def _is_raised_by_function(exc: BaseException) -> bool:
    """By a `raise` statement, and not by one of the signal's handler: both others stop a function
    at any other instruction.
    """
    trace, on_signal, is_raise = exc.__traceback__, _code_of_signal_handler(), False
    while trace is not None:
        code = trace.tb_frame.f_code
        if code is on_signal:
            return False
        is_raise = code.co_code[trace.tb_lasti] == _RAISE
        trace = trace.tb_next
    return is_raise


def _code_of_signal_handler() -> CodeType | None:
    handler: object = signal.getsignal(signal.SIGINT)
    while isinstance(handler, partial):  # as `asyncio.run` makes its own
        handler = handler.func
    return getattr(handler, "__code__", None)


contain_exit = _ExitContainment()
contain_cancellation = _CancellationContainment()
