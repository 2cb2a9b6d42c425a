"""Keeps a cancellation that `asyncio.wait_for` of a library would lose.

Before Python 3.12 `wait_for` loses a cancellation that arrives together with the result or the
error: the cancelled task goes on, and is not cancelled again. The router itself uses
`asyncio.timeout`, which has no such defect; this is for libraries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def preserve_cancellation(work: Awaitable[T]) -> T:
    """Await `work`, then raise a cancellation that arrived meanwhile, whatever the result."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        return await work
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError
