"""What holds the event loop: callbacks that run for 5 ms or longer are counted by their names.

Every message of a process waits while one callback runs, so a stall is the first suspect where the
slowest hundredth of the answers is late. To count them costs two readings of the clock a callback;
a chunk of messages from the socket is one callback.

asyncio tells slow callbacks in its debug mode only, which slows every call. So this file wraps the
one method by which asyncio runs each callback, `asyncio.Handle._run`, while a router counts.
"""

from __future__ import annotations

import asyncio
import gc
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from router.core.clock import steady
from router.process.observability.instruments import BoundedLabels, Labels

STALL_S = 0.005
COLLECTOR = "cycle collector"
MAX_NAMES = 100  # they are of code, and code can make functions without end


class LoopStalls:
    """The stalls of one event loop by callback: how many, and their seconds in all."""

    def __init__(self) -> None:
        self.counts: dict[Labels, int] = defaultdict(int)
        self.seconds: dict[Labels, float] = defaultdict(float)
        self._names = BoundedLabels(MAX_NAMES)
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def count(self) -> Iterator[None]:
        """Within the block, count those of the running loop."""
        self._loop = asyncio.get_running_loop()
        _clock.add(self)
        try:
            yield
        finally:
            _clock.remove(self)

    def on_stall(self, loop: asyncio.AbstractEventLoop, name: str, took_s: float) -> None:
        if loop is self._loop:
            label = (self._names[name],)
            self.counts[label] += 1
            self.seconds[label] += took_s


class _CallbackClock:
    """Times each callback of the process, for every `LoopStalls` that counts: a process may hold
    several routers, each on a loop of its own.
    """

    def __init__(self) -> None:
        self._told: list[LoopStalls] = []
        self._run: Callable[[asyncio.Handle], None]
        self._collected_s = 0.0  # in all
        self._collects_since = 0.0

    def add(self, stalls: LoopStalls) -> None:
        self._told.append(stalls)
        if len(self._told) == 1:
            self._run = asyncio.Handle._run
            _set_run(self._make_timed(self._run))
            gc.callbacks.append(self._on_collection)

    def remove(self, stalls: LoopStalls) -> None:
        self._told.remove(stalls)
        if not self._told:
            _set_run(self._run)
            gc.callbacks.remove(self._on_collection)

    def _make_timed(
        self, run: Callable[[asyncio.Handle], None]
    ) -> Callable[[asyncio.Handle], None]:
        now = steady

        def time_callback(handle: asyncio.Handle) -> None:
            collected_s, began = self._collected_s, now()
            run(handle)
            if (took_s := now() - began) >= STALL_S:
                self._tell(handle, took_s, self._collected_s - collected_s)

        return time_callback

    def _tell(self, handle: Any, took_s: float, collected_s: float) -> None:
        parts = ((name_callback(handle), took_s - collected_s), (COLLECTOR, collected_s))
        for name, part_s in parts:
            if part_s >= STALL_S:
                for stalls in self._told:
                    stalls.on_stall(handle._loop, name, part_s)

    def _on_collection(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._collects_since = steady()
        else:
            self._collected_s += steady() - self._collects_since


def _set_run(run: Callable[[asyncio.Handle], None]) -> None:
    setattr(asyncio.Handle, "_run", run)  # noqa: B010 - mypy takes it for a method of another shape


_clock = _CallbackClock()


def name_callback(handle: asyncio.Handle) -> str:
    """Of a task's step, its coroutine; of a socket that has bytes, the class that reads them; of
    anything else, the function.
    """
    callback = handle._callback  # type: ignore[attr-defined]
    while (inner := getattr(callback, "func", None)) is not None:  # a partial
        callback = inner
    owner = getattr(callback, "__self__", None)
    named: object = callback
    if isinstance(owner, asyncio.Task):
        named = owner.get_coro()
    elif isinstance(owner, asyncio.Transport):
        named = type(owner.get_protocol())
    name = getattr(named, "__qualname__", None) or type(named).__name__
    module = getattr(named, "__module__", None)
    return f"{module}.{name}" if module else name
