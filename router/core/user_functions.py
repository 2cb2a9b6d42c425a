"""A user's function: checked at the start, so that it can be called, and contained when it is, so
that it ends one call and never the process.

A handler with the wrong signature fails at every message, and would turn its whole stream into dead
letters.
"""

from __future__ import annotations

import asyncio
import dis
import inspect
import signal
from functools import partial
from types import CodeType, TracebackType
from typing import Any

from router.core.errors import Misconfigured


class HandlerMisused(Misconfigured):
    """A handler returned an illegal value: it is not called again, and its messages stay in their
    stream.
    """


def require_call(
    setting: str, function: Any, *arguments: str, is_async: bool | None = None
) -> None:
    """Raises Misconfigured unless `function` takes these arguments; `is_async`: None = either."""
    expected = f"{'an async' if is_async else 'a'} function of ({', '.join(arguments)})"
    if not callable(function):
        raise Misconfigured(setting, f"should be {expected}, and is {type(function).__name__}")
    if (signature := _signature(function)) is not None and not _can_take(signature, len(arguments)):
        raise Misconfigured(
            setting,
            (
                f"should be {expected}, and {_name(function)} takes "
                f"{signature.replace(return_annotation=signature.empty)}"
            ),
        )
    if is_async is not None and is_async_callable(inspect.unwrap(function)) is not is_async:
        found_to_be = "is not: write `async def`" if is_async else "is asynchronous: write `def`"
        raise Misconfigured(setting, f"should be {expected}, and {_name(function)} {found_to_be}")


def is_async_callable(function: object) -> bool:
    """Whether it is an async function, or an object with an async `__call__`."""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - an object's, not any callable
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def require_finished(setting: str, returned: object) -> None:
    """Raise HandlerMisused if a plain function returned a coroutine or a generator: its body has
    not run, and never will.
    """
    if returned is None:  # nearly always
        return
    if inspect.iscoroutine(returned):
        returned.close()  # Python would warn that it was never awaited
    if (
        inspect.isawaitable(returned)
        or inspect.isgenerator(returned)
        or inspect.isasyncgen(returned)
    ):
        raise HandlerMisused(
            setting,
            f"it returned a {type(returned).__name__}, which never runs: write a plain function",
        )


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # some functions written in C have none


def _can_take(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


# -- What would end a process fails one call when a user's function raises it: `sys.exit()`,
# `raise KeyboardInterrupt`.
#
# with contain_exit:
#     answer = handler(message)           SystemExit -> HandlerExited, which is an exception like
#                                         any other
#
# What the caller itself is told passes: a cancellation, Ctrl-C, the end of a generator. Ctrl-C
# and the end of a generator reach a function from outside, wherever it is; the same exception is
# the function's own where a `raise` statement of it raised it. A function that awaits a task
# which other code cancelled raises CancelledError, too, and its caller is not cancelled:
# `contain_cancellation` makes a HandlerExited of that.


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
