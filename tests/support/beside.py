"""Work that goes on beside a test: it is cancelled at the block's end, and its error fails the test."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, object]) -> AsyncIterator[asyncio.Task[object]]:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
