"""A worker of the SDK whose function returns at once."""

from __future__ import annotations

import asyncio

from bench.child import Ready
from bench.question import Measured
from bench.stretch import stretch
from router.contracts.exec_assignment import ExecAssignment
from router.sdk import StepResult, Worker


async def work(ready: Ready, *, url: str, first: int, last: int) -> Measured:
    """From assignment `first` to assignment `last`, each with its result stored."""
    done = 0

    async def answer(_: ExecAssignment) -> StepResult:
        nonlocal done
        done += 1
        return StepResult(output="done", cost=0.002)

    worker = Worker(url, answer, worker_id="bench")
    working = asyncio.create_task(worker.work(lambda _: ready()))
    figures = await stretch(lambda: done, first, last)
    await asyncio.sleep(0)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    return figures
