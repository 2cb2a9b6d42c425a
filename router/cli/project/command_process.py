"""One `router` command as a process: started, heard, stopped, and started again when a file was
saved.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from router.process.child_process import die_with, stop_process
from router.shell.exit_codes import complain

Event = Mapping[str, Any]  # a JSON line that a serving command prints for programs

MAX_LINE = 1 << 20
READY_WITHIN_S = 60.0  # of a busy machine
STOP_S = 30.0  # above the drain of each of them


class CommandProcess:
    """Events but the one that it is `ready` go to `on_event`; other lines are the user's own, and
    pass, as standard error does.

    `on_ended` gets the status of one that was ready, and ended by itself. The user's own lines may
    look like events. Standard error is a pipe: what a command tells only a person at a terminal
    would stand between our lines.
    """

    def __init__(
        self,
        directory: Path,
        ready: str,
        on_event: Callable[[Event], None],
        on_ended: Callable[[int], None],
        environ: Mapping[str, str],
    ) -> None:
        self._directory = directory
        self._ready = ready
        self._on_event = on_event
        self._on_ended = on_ended
        self._environ = environ
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self, *arguments: str) -> Event | None:
        """Start it anew; return the event that says it is ready, or None if it ended first, and
        said why.
        """
        await self.stop()
        command = (sys.executable, "-m", "router.cli", *arguments)
        process = self._process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self._directory,
            env={**os.environ, **self._environ},
            stdout=PIPE,
            stderr=PIPE,
            limit=MAX_LINE,
            start_new_session=True,  # Ctrl-C is for us: we stop them, in order
            preexec_fn=die_with(os.getpid()),
        )
        ready: asyncio.Future[Event | None] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(process, ready))
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                return await ready
        except TimeoutError:
            complain(
                f"{arguments[0]} is not ready after {READY_WITHIN_S:g} s: does a file of "
                "it wait or serve while it is imported?"
            )
            await self.stop()
            return None

    async def stop(self) -> None:
        """Stop it, if it runs: it finishes what is in flight."""
        process, self._process = self._process, None
        if process is None:
            return
        await stop_process(process, STOP_S)
        if self._reading is not None:
            await self._reading

    async def _read(self, process: Process, ready: asyncio.Future[Event | None]) -> None:
        assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 - they are pipes
        copying = asyncio.create_task(_copy(process.stderr))
        while (line := await _read_line(process.stdout)) is not None:
            event = _parse_event(line)
            if event is None:
                sys.stdout.write(line)
            elif event["event"] == self._ready and not ready.done():
                ready.set_result(event)
            else:
                self._on_event(event)
        status = await process.wait()
        await copying
        if not ready.done():
            ready.set_result(None)
        elif process is self._process:  # it was not stopped
            self._on_ended(status)


async def run_command(directory: Path, *arguments: str) -> tuple[int, str]:
    """Run it to its end; return its status and its output. Errors are on standard error, which is
    ours.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "router.cli",
        *arguments,
        cwd=directory,
        stdout=PIPE,
        start_new_session=True,
        preexec_fn=die_with(os.getpid()),
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return await process.wait(), output.decode("utf-8", "replace")


async def _read_line(stream: asyncio.StreamReader) -> str | None:
    """Return the next line; None at the end. One above MAX_LINE is dropped."""
    try:
        return (await stream.readline()).decode("utf-8", "replace") or None
    except ValueError:
        return "\n"


async def _copy(errors: asyncio.StreamReader) -> None:
    while (line := await _read_line(errors)) is not None:
        sys.stderr.write(line)
        sys.stderr.flush()


def _parse_event(line: str) -> Event | None:
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) and isinstance(parsed.get("event"), str) else None
