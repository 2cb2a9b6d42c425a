"""What holds the event loop: each callback that takes longer than 5 ms, by its name, in the
processes of a question's first side. Off unless asked for: a callback costs a microsecond more.

    python -m bench --only decide_load --rounds 1 --stalls FILE

writes FILE.PROCESS.md: a table of the callbacks, then each stall with the second in which it came.
Beside the time that passed stand the processor's, and that of Python's cycle collector: where the
first is far above both others, the process waited for the machine. The way into a child is its
environment, as of `profiling`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

VARIABLE = "BENCH_STALLS"
BOUND_S = 0.005
MOST = 100_000  # stalls that are kept: the first ones


class Stall(Struct, frozen=True):
    """Seconds: when it began, since the process did; how long it took; the processor's part, and
    the collector's.
    """

    at_s: float
    took_s: float
    processor_s: float
    collector_s: float
    callback: str


class LoopTracer:
    """Times each callback that asyncio runs. A context: it is off before and afterwards."""

    def __init__(self, bound_s: float = BOUND_S) -> None:
        self.stalls: list[Stall] = []
        self._bound_s = bound_s
        self._began = time.perf_counter()
        self._collector_s = 0.0  # in all
        self._collects_since = 0.0

    def __enter__(self) -> LoopTracer:
        self._run = asyncio.Handle._run  # type: ignore[attr-defined]
        asyncio.Handle._run = self._make_timed()  # type: ignore[attr-defined]
        gc.callbacks.append(self._on_collection)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.Handle._run = self._run  # type: ignore[attr-defined]
        gc.callbacks.remove(self._on_collection)

    def _make_timed(self) -> Any:
        run, now, processor, bound_s = self._run, time.perf_counter, time.thread_time, self._bound_s

        def run_timed(handle: asyncio.Handle) -> None:
            collected_s, worked, began = self._collector_s, processor(), now()
            run(handle)
            if (took_s := now() - began) >= bound_s and len(self.stalls) < MOST:
                stall = Stall(
                    began - self._began,
                    took_s,
                    processor() - worked,
                    self._collector_s - collected_s,
                    name_callback(handle),
                )
                self.stalls.append(stall)

        return run_timed

    def _on_collection(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._collects_since = time.perf_counter()
        else:
            self._collector_s += time.perf_counter() - self._collects_since


def name_callback(handle: asyncio.Handle) -> str:
    """Of a task's step, its coroutine; of anything else, the function."""
    callback = handle._callback  # type: ignore[attr-defined]
    while (inner := getattr(callback, "func", None)) is not None:  # a partial
        callback = inner
    task = getattr(callback, "__self__", None)
    named = task.get_coro() if isinstance(task, asyncio.Task) else callback
    name = getattr(named, "__qualname__", None) or type(named).__name__
    module = getattr(named, "__module__", None)
    return f"{module}.{name}" if module else name


def draw_table(stalls: Sequence[Stall]) -> str:
    """By callback, the one that took most first; then each stall, in its order."""
    by_callback = defaultdict[str, list[Stall]](list)
    for stall in stalls:
        by_callback[stall.callback].append(stall)
    lines = [
        "| callback | stalls | ms in all | longest | processor, in all | collector, in all |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for callback, some in sorted(by_callback.items(), key=lambda item: -_sum(item[1], "took_s")):
        longest = max(stall.took_s for stall in some)
        sums = (_sum(some, name) * 1e3 for name in ("took_s", "processor_s", "collector_s"))
        took, processor, collector = sums
        lines.append(
            f"| {callback} | {len(some)} | {took:.1f} | {longest * 1e3:.1f} "
            f"| {processor:.1f} | {collector:.1f} |"
        )
    lines += ["", "| second | ms | processor | collector | callback |", "|---:|---:|---:|---:|---|"]
    lines += (
        f"| {stall.at_s:.3f} | {stall.took_s * 1e3:.1f} | {stall.processor_s * 1e3:.1f} "
        f"| {stall.collector_s * 1e3:.1f} | {stall.callback} |"
        for stall in stalls
    )
    return "\n".join(lines) + "\n"


def _sum(stalls: Sequence[Stall], name: str) -> float:
    return sum(getattr(stall, name) for stall in stalls)


@contextmanager
def tracing(file: Path) -> Iterator[None]:
    """Children that are started within write FILE.PROCESS.md."""
    os.environ[VARIABLE] = str(file.resolve())
    try:
        yield
    finally:
        del os.environ[VARIABLE]


@contextmanager
def traced(process: str) -> Iterator[None]:
    """In a child: trace the block, if that was asked for."""
    if not (file := os.environ.get(VARIABLE)):
        yield
        return
    with LoopTracer() as tracer:
        try:
            yield
        finally:
            Path(f"{file}.{process}.md").write_text(draw_table(tracer.stalls))
