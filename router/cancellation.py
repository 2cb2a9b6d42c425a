"""A cancellation that is not lost, where libraries wait in `asyncio.wait_for`.

Before Python 3.12 that forgets a cancellation which comes together with the answer, or the error: whoever was told to stop goes
on as if nothing were, and nobody tells it again. Our own code uses `asyncio.timeout`, which does not; this is for others'.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def preserve_cancellation(work: Awaitable[T]) -> T:
    """`work`, and then a cancellation that came while it ran, whatever became of it."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        return await work
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError
