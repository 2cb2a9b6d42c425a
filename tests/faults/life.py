"""One run from its start to its end: neither its own end nor Ctrl-C or SIGTERM leaves a process or a file behind."""

import asyncio
import signal
from collections.abc import Coroutine
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
