"""What a user's function raises by itself fails its call; what reaches it from outside passes."""

import asyncio
import gc
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from router.core.user_functions import HandlerExited, contain_cancellation, contain_exit


class Stopped(BaseException):
    """A class of the author's own, or of a library."""


class Unspeakable(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "exc",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        Stopped(),
        BaseExceptionGroup("", [Stopped()]),
        Unspeakable(),
    ],
)
@pytest.mark.parametrize("contain", [contain_exit, contain_cancellation])
def test_what_a_function_raises_is_an_exception_that_names_it(
    contain: type[contain_exit], exc: BaseException
) -> None:  # type: ignore[valid-type]
    with pytest.raises(HandlerExited, match=type(exc).__name__) as caught, contain:  # type: ignore[attr-defined]
        raise exc
    assert caught.value.__cause__ is exc


def _wait() -> None:
    time.sleep(30)


def _wait_and_raise_again() -> None:
    try:
        time.sleep(30)
    except KeyboardInterrupt:
        raise


def _raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def _signal_handler(handler: Callable[..., object]) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, before)


def _interrupt_at_work(function: Callable[[], None]) -> None:
    with contain_exit:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        function()


@pytest.mark.parametrize("function", [_wait, _wait_and_raise_again])
@pytest.mark.parametrize(
    "handler", [signal.default_int_handler, _raise_interrupt], ids=["Python's", "the program's"]
)
def test_an_interrupt_of_the_process_passes(
    handler: Callable[..., object], function: Callable[[], None]
) -> None:
    alarm = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with _signal_handler(handler), pytest.raises(KeyboardInterrupt):
            _interrupt_at_work(function)
    finally:
        signal.signal(signal.SIGALRM, alarm)


def test_the_second_interrupt_of_a_program_that_asyncio_runs_passes() -> None:
    async def program() -> None:
        task = asyncio.current_task()
        assert task is not None
        signal.raise_signal(signal.SIGINT)  # the first one cancels
        with contain_exit:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), asyncio.Runner() as runner:
        runner.run(program())


def test_the_end_of_a_coroutine_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an abandoned handler would go on, and Python would complain of it."""
    heard: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)

    async def handle() -> None:
        with contain_cancellation:
            await asyncio.Event().wait()
        heard.append("went on")

    ended = handle()
    loop = asyncio.new_event_loop()
    loop.call_soon(ended.send, None)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    ended.close()
    del ended
    gc.collect()
    assert heard == []
