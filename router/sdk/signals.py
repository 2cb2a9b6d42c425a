"""End a user's program by a signal: the work in flight finishes first, and no traceback is written.

    SIGTERM, Ctrl-C     `work` is cancelled: it drains, as long as its own `drain_s` allows
                        when all of it has ended, the process exits with status 0, and other tasks
                        are cancelled
    a second signal     what still drains is cut off; a second later the process exits with 130

A signal for which the program has a handler of its own stays the program's, and so do all signals
outside the main thread.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
from collections.abc import Coroutine
from functools import partial
from types import FrameType
from typing import Any, Protocol

from router.core.errors import Misconfigured, RouterError, describe_causes
from router.core.masking import MAX_COMPLAINT, hide_logins, printable, shorten

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
INTERRUPTED = 130
LAST_CHANCE_S = 1.0


class Runnable(Protocol):
    """A `Worker`, an `Agent`, an `ExtensionServer`."""

    def run(self) -> Coroutine[Any, Any, None]: ...


class SignalExit(SystemExit):
    """A signal ended the program, and all work had drained."""


def run(work: Runnable | Coroutine[Any, Any, None]) -> None:
    """Run a worker, an agent or a coroutine until it ends or a signal ends it. An error of ours is
    one line and status 1.

    router.run(Worker("nats://localhost:4222", answer, worker_id="gpu-1"))
    """
    try:
        asyncio.run(_run_program(_coroutine_of(work)))
    except SignalExit:
        return
    except RouterError as exc:
        line = shorten(" ".join(describe_causes(exc).split()), MAX_COMPLAINT)
        raise SystemExit(f"router: {printable(hide_logins(line))}") from None


async def run_until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Do `work` in this task; a signal cancels it, and ends the program once all such work has
    ended.
    """
    signals = _get_signal_handler()
    await (signals.hold(work) if signals is not None else work)


async def _run_program(program: Coroutine[Any, Any, None]) -> None:
    """Handle signals from the program's start to its end, not only while our work runs."""
    signals = _get_signal_handler()
    await (signals.hold_program(program) if signals is not None else program)


class _SignalHandler:
    """Handles the signals that have Python's default handler, while work runs on one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._tasks: set[asyncio.Task[Any]] = set()
        self._holds_program = False
        self._is_ending = False
        self._times = 0
        self._before = {
            number: signal.signal(number, self._hear)
            for number in STOP_SIGNALS
            if _is_left_alone(number)
        }

    async def hold(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.current_task()
        assert task is not None  # a coroutine is run by one  # noqa: S101
        self._tasks.add(task)
        try:
            await work
        except asyncio.CancelledError:
            if not self._times:
                raise
        finally:
            self._tasks.discard(task)
            self._rest()
        if self._times:
            await asyncio.Event().wait()  # until the end of all work ends the loop

    async def hold_program(self, program: Coroutine[Any, Any, None]) -> None:
        self._holds_program = True
        try:
            await program
        finally:
            self._holds_program = False
            self._rest()

    def _rest(self) -> None:
        """Where no work is left: exit, if a signal came."""
        if self._tasks:
            return
        if self._times and not self._is_ending:
            self._is_ending = True
            self.loop.call_soon(_end)
        if not self._holds_program:
            for number, handler in self._before.items():
                signal.signal(number, handler)
            _LISTENING.clear()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.loop.call_soon_threadsafe(self._act)

    def _act(self) -> None:
        self._times += 1
        for task in list(self._tasks):
            task.cancel()
        self._rest()
        if self._times == 2:
            self.loop.call_later(LAST_CHANCE_S, os._exit, INTERRUPTED)


_LISTENING: list[_SignalHandler] = []  # one, or none: signals are the process' own


def _get_signal_handler() -> _SignalHandler | None:
    """None: the signals are not ours to handle."""
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        return None
    if not _LISTENING and any(map(_is_left_alone, STOP_SIGNALS)):
        _LISTENING.append(_SignalHandler(loop))
    return next((handler for handler in _LISTENING if handler.loop is loop), None)


def _is_left_alone(number: signal.Signals) -> bool:
    """At Python's default, or at that of `asyncio.run`."""
    handler = signal.getsignal(number)
    return handler in (signal.SIG_DFL, signal.default_int_handler) or (
        isinstance(handler, partial)
        and getattr(handler.func, "__qualname__", "") == "Runner._on_sigint"
    )


def _end() -> None:
    raise SignalExit(0)


def _coroutine_of(work: Runnable | Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
    if inspect.iscoroutine(work):
        return work
    if (
        not isinstance(work, type)
        and callable(begin := getattr(work, "run", None))
        and inspect.iscoroutine(made := begin())
    ):
        return made
    raise Misconfigured(
        "work",
        (
            "should be a Worker, an Agent or a coroutine, as in router.run(main()), and is "
            f"{type(work).__name__}"
        ),
    )
