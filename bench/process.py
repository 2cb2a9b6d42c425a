"""A side as a process of its own, from outside: imports, garbage and memory of the sides never mix.

    async with a_child("bench.sides.router", "decide", url=url, …) as router:
        await router.ready()
        figures = await router.figures()

Whatever happens inside the block, the child is gone after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import IO, Any

from bench.question import Broken, Measured

ROOT = Path(__file__).parent.parent
PATIENCE_S = 300.0

Said = dict[str, Any]  # a line of `bench.child`: {"ready": …} or {"figures": …}


class ChildProcess:
    """One running `bench.child`."""

    def __init__(self, process: Process, complaints: IO[bytes], name: str) -> None:
        self._process = process
        self._complaints = complaints
        self._name = name

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ready(self) -> Mapping[str, str]:
        """Wait until it is; what it told about itself."""
        facts: Mapping[str, str] = (await self._says("ready", PATIENCE_S))["ready"]
        return facts

    async def figures(self, patience_s: float = PATIENCE_S) -> Measured:
        """Wait for its figures and for its end, which has to be a good one."""
        figures: Measured = (await self._says("figures", patience_s))["figures"]
        if await asyncio.wait_for(self._process.wait(), 30):
            raise Broken(f"{self._name} did not end well: {self._last_words()}")
        return figures

    async def stop(self) -> Measured:
        """Tell it to end, as an operator does; its figures."""
        self._process.terminate()
        return await self.figures()

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _says(self, what: str, patience_s: float) -> Said:
        said = await self._line(patience_s)
        while what not in said:  # the caller did not wait for the child's `ready`
            said = await self._line(patience_s)
        return said

    async def _line(self, patience_s: float) -> Said:
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), patience_s)
        except TimeoutError:
            raise Broken(
                f"{self._name} said nothing for {patience_s:.0f} s: {self._last_words()}"
            ) from None
        if not line:
            raise Broken(f"{self._name} ended early: {self._last_words()}")
        said: Said = json.loads(line)
        return said

    def _last_words(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")[-2000:].strip() or "no word of why"


@contextlib.asynccontextmanager
async def a_child(module: str, function: str, **arguments: object) -> AsyncIterator[ChildProcess]:
    """Start `module.function` as a process."""
    with tempfile.TemporaryFile() as complaints:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.child", module, function, json.dumps(arguments)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=complaints,
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is ours to hear; we end the children
        )
        child = ChildProcess(process, complaints, f"{module}.{function}")
        try:
            yield child
        finally:
            await child.end()


async def figures_of(
    module: str, function: str, patience_s: float = PATIENCE_S, **arguments: object
) -> Measured:
    """The figures of a child that its parent need not drive."""
    async with a_child(module, function, **arguments) as child:
        return await child.figures(patience_s)
