"""One part of the stage as a child process: started, killed, paused, started again; what it says is
kept in a file.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.clocked import OFFSETS_S

PATIENCE_S = 120.0  # a start, on a machine that is busy
STEP = {float(seconds): number for number, seconds in OFFSETS_S.items()}


class Child:
    """`python -m MODULE ARGUMENTS`, ready when it prints the line `announces`; if that is empty, a
    line without an event.
    """

    def __init__(
        self,
        name: str,
        command: tuple[str, ...],
        announces: str,
        environ: Mapping[str, str],
        home: Path,
    ) -> None:
        self.name = name
        self._command = command
        self._announces = announces
        self._environ = {**os.environ, **environ}
        self._said = home / f"{name}.out"
        self._log = home / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._from = 0  # where the present life begins in what was said
        self._should_run = False
        self._began = 0.0
        self.is_ready = True  # as far as `look` has seen
        self.deaths = 0  # without a kill of the run
        self.starts_s: list[float] = []  # from being spawned to being ready

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def revive(self) -> str | None:
        """Start it again if it ended by itself, as its supervisor would; the last that it said,
        None if it had not.
        """
        if not self._should_run or self.is_running:
            return None
        words = self.last_words()
        self.deaths += 1
        self.spawn()
        return words

    def spawn(self) -> None:
        """Returns at once; a session of its own, so that Ctrl-C is ours alone to hear."""
        self._should_run = True
        self._began, self.is_ready = time.monotonic(), False
        self._from = self._said.stat().st_size if self._said.exists() else 0
        with self._said.open("ab") as said, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._command],
                env=self._environ,
                stdout=said,
                stderr=log,
                start_new_session=True,
            )

    async def ready(self) -> dict[str, Any]:
        """What it announced. RuntimeError when it ends before that, or says nothing."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while asyncio.get_running_loop().time() < deadline:
            if (line := self._announcement()) is not None:
                return line
            if not self.is_running:
                break
            await asyncio.sleep(0.02)
        raise RuntimeError(f"{self.name} is not ready: {self.last_words()}")

    def look(self) -> None:
        """Notice that it is ready, and how long its start took."""
        if not self.is_ready and self._announcement() is not None:
            self.is_ready = True
            self.starts_s.append(time.monotonic() - self._began)

    def said(self) -> Iterator[dict[str, Any]]:
        """Every line of all its lives."""
        return self._lines(0)

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-1500:] if self._log.exists() else ""

    def kill(self) -> None:
        self._should_run = False
        if self.is_running:
            self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def step_clock(self, seconds: float) -> None:
        """Its wall clock is so far off from now on: one of STEP."""
        self.signal(STEP[seconds])

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _announcement(self) -> dict[str, Any] | None:
        return next(
            (line for line in self._lines(self._from) if line.get("event", "") == self._announces),
            None,
        )

    def _lines(self, start: int) -> Iterator[dict[str, Any]]:
        if not self._said.exists():
            return
        with self._said.open("rb") as file:
            file.seek(start)
            for line in file:
                with contextlib.suppress(ValueError):  # cut short by a kill
                    yield json.loads(line)
