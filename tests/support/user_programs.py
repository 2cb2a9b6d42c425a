"""Programs of a user's own that import the package and configure nothing: run as processes, read,
told to stop.
"""

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from tests.support.cli import clean_environment
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
AT_THE_END_S = 60.0  # a bound of a hang, no measure of speed


class UserProgram:
    """One program at work. What it wrote so far is in `out` and `err`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.out = self.err = ""
        self._hearing = asyncio.gather(
            self._hear("out", process.stdout), self._hear("err", process.stderr)
        )

    async def says(self, text: str, times: int = 1) -> None:
        """Once it wrote this so often, to either of its streams."""
        await until(
            lambda: (self.out + self.err).count(text) >= times,
            what=f"{text!r} in {self.out + self.err}",
        )

    async def told(self, number: signal.Signals) -> int:
        """Its status, after a signal."""
        self._process.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        async with asyncio.timeout(AT_THE_END_S):
            await self._hearing
            return await self._process.wait()

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self.ended()

    async def _hear(self, name: str, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        while line := await stream.readline():
            setattr(self, name, getattr(self, name) + line.decode())


@contextlib.asynccontextmanager
async def a_user_program(
    text: str, *arguments: object, cwd: Path | None = None
) -> AsyncIterator[UserProgram]:
    """`python -c text arguments…`, killed at the end of the block if it still runs."""
    command: Sequence[str] = (sys.executable, "-c", text, *map(str, arguments))
    environ = clean_environment({"PYTHONPATH": str(ROOT)})
    program = UserProgram(
        await asyncio.create_subprocess_exec(
            *command, stdout=PIPE, stderr=PIPE, env=environ, cwd=cwd
        )
    )
    try:
        yield program
    finally:
        await program.kill()
