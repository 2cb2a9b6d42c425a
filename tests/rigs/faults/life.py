"""One run from its start to its end: neither its own end nor Ctrl-C or SIGTERM leaves a process or
a file behind.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
INTERRUPTED = 130


def run_until_told(work: Coroutine[Any, Any, T]) -> T | None:
    """What it returns; None when a signal ended it, after it has cleaned up."""

    async def told() -> T:
        task = asyncio.ensure_future(work)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await task

    try:
        return asyncio.run(told())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return None


@contextmanager
def first_interrupt(what: str) -> Iterator[Callable[[], bool]]:
    """Yields whether Ctrl-C came once; it is answered with `what`. The second one ends the run at
    once, as without this.
    """
    loop, interrupted = asyncio.get_running_loop(), asyncio.Event()

    def note() -> None:
        interrupted.set()
        loop.remove_signal_handler(signal.SIGINT)
        print(what, file=sys.stderr, flush=True)

    loop.add_signal_handler(signal.SIGINT, note)
    try:
        yield interrupted.is_set
    finally:
        loop.remove_signal_handler(signal.SIGINT)
