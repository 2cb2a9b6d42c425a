"""A process of ours from outside: ready, go, its records as they come, its figures; gone in the
end, by its own id.

async with a_part("flood", url=url, rate=50_000.0) as flood:
    await flood.ready()
    flood.go()
    figures = await flood.figures(patience_s=30)
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[3]
READY_S = 120.0  # a start, on a machine that is busy
LINE_LIMIT = 1 << 24  # bytes of one line that a part says

Line = dict[str, Any]


class Broken(Exception):
    """A part of the harness, or the router at its start, did not do what it must; what was measured
    would be worth nothing.
    """


class Part:
    """One running `tests.rigs.neighbours.play`."""

    def __init__(
        self, name: str, process: Process, complaints: IO[bytes], on_record: Callable[[Line], None]
    ) -> None:
        self._name = name
        self._process = process
        self._complaints = complaints
        self._on_record = on_record
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[Line] = loop.create_future()
        self._figures: asyncio.Future[Line] = loop.create_future()
        self._reading = asyncio.create_task(self._read())

    async def ready(self) -> Line:
        return await self._wait(self._ready, READY_S)

    def go(self) -> None:
        self._write(b"go\n")

    def stop(self) -> None:
        self._write(b"stop\n")

    async def figures(self, patience_s: float) -> Line:
        return await self._wait(self._figures, patience_s)

    async def end(self) -> None:
        self._reading.cancel()
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    def _write(self, word: bytes) -> None:
        if self._process.returncode is None and self._process.stdin is not None:
            self._process.stdin.write(word)

    async def _wait(self, said: asyncio.Future[Line], patience_s: float) -> Line:
        either: set[asyncio.Future[Any]] = {said, self._reading}
        done, _ = await asyncio.wait(
            either, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED
        )
        if said.done():
            return said.result()
        why = "ended early" if done else f"said nothing for {patience_s:.0f} s"
        raise Broken(f"{self._name} {why}: {self._last_words()}")

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            said = json.loads(line)
            if "ready" in said:
                self._ready.set_result(said["ready"])
            elif "figures" in said:
                self._figures.set_result(said["figures"])
            else:
                self._on_record(said)

    def _last_words(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")[-2000:].strip() or "no word of why"


@contextlib.asynccontextmanager
async def a_part(
    play: str, /, *, on_record: Callable[[Line], None] = lambda _: None, **arguments: Any
) -> AsyncIterator[Part]:
    """Start `tests.rigs.neighbours.play NAME`; whatever happens inside the block, the process is
    gone after it.
    """
    with tempfile.TemporaryFile() as complaints:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.rigs.neighbours.play", play, json.dumps(arguments)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=complaints,
            cwd=ROOT,
            limit=LINE_LIMIT,
            start_new_session=True,  # Ctrl-C is ours to hear; we end the parts
        )
        part = Part(play, process, complaints, on_record)
        try:
            yield part
        finally:
            await part.end()
