"""A worker of the SDK whose function returns at once: beside a router, or alone with a backlog; in
a process as `router worker` has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from bench.child import Ready
from bench.question import Measured
from bench.stretch import figures_of, look, reaches, stretch
from router.contracts.exec_assignment import ExecAssignment
from router.process.memory import calm_collector
from router.sdk import StepResult, Worker


async def work(ready: Ready, *, url: str, first: int, last: int) -> Measured:
    """From assignment `first` to assignment `last`, each with its result stored."""
    worker, done = a_worker(url)
    with calm_collector():
        working = asyncio.create_task(worker.work(lambda _: ready()))
        figures = await stretch(done, first, last)
        await asyncio.sleep(0)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    return figures


async def backlog(
    ready: Ready,
    *,
    url: str,
    first: int,
    last: int,
    stream: str,
    durable: str,
    subjects: Mapping[str, str],
) -> Measured:
    """The same; the end is that of the drain, when the last assignment is settled. The places are
    the worker's own.
    """
    worker, done = a_worker(url)
    with calm_collector():
        working = asyncio.create_task(worker.work())
        begin, _ = await reaches(done, first)
        await reaches(done, last)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    return figures_of(begin, look(done))


def a_worker(url: str) -> tuple[Worker, Callable[[], int]]:
    """A worker, and how many assignments its function has answered."""
    done = 0

    async def answer(_: ExecAssignment) -> StepResult:
        nonlocal done
        done += 1
        return StepResult(output="done", cost=0.002)

    return Worker(url, answer, worker_id="bench"), lambda: done
