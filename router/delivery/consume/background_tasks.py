"""The background tasks of one subscription; a drain cancels them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Work = Coroutine[Any, Any, None]


class BackgroundTasks:
    """They run in the consumer's task group."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._under_way: set[asyncio.Task[None]] = set()
        self._named: set[str] = set()

    def start(self, work: Work) -> None:
        task = self._tasks.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def start_once(self, name: str, work: Callable[[], Work]) -> None:
        """Start it, unless the task of this name still runs."""
        if name not in self._named:
            self._named.add(name)
            self.start(self._run(name, work))

    def start_uncancelled(self, work: Work) -> None:
        """Start it; a drain waits for it."""
        self._tasks.create_task(work)

    def end(self) -> None:
        """Cancel all but those that a drain waits for."""
        for task in self._under_way:
            task.cancel()

    async def _run(self, name: str, work: Callable[[], Work]) -> None:
        try:
            await work()
        finally:
            self._named.discard(name)
