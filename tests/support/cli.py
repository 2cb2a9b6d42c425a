"""The `router` command: to its end, in this process, or serving as a process of its own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

from typer.testing import CliRunner

from router.cli.app import app
from tests.support.observability import restore_logging

COMMAND = (sys.executable, "-m", "router.cli")
ASK = ("decide", "--tenant", "acme", "--type", "chat", "--timeout", "60")
FROM_FILE = ("decide", "--file", "-", "--timeout", "60")
ENDED_WITHIN_S = 120  # it hangs
# a server of the tests is there, and the machine is busy
PATIENT = {"ROUTER_NATS__CONNECT_TIMEOUT_MS": "30000"}
# for an address where none is: it is tried until the time is over
IMPATIENT = {"ROUTER_NATS__CONNECT_TIMEOUT_MS": "100"}


class CommandResult:
    """How a command ended, and what it said."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def router(
    *arguments: str,
    given: bytes = b"",
    environ: Mapping[str, str] | None = None,
    within_s: float = ENDED_WITHIN_S,
) -> CommandResult:
    """Run `router …` to its end."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdin=PIPE, stdout=PIPE, stderr=PIPE, env=clean_environment(environ)
    )
    out, err = process.communicate(given, timeout=within_s)
    ended = CommandResult(process.returncode, out.decode(), err.decode())
    assert "Traceback" not in ended.err, ended.err
    return ended


def call_command(
    *arguments: str, given: bytes = b"", environ: Mapping[str, str] | None = None
) -> CommandResult:
    """The same in this process, in a thread of its own: where starting one is not what is tested,
    it costs more than all the rest.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_call, arguments, given, environ).result()


async def call_command_async(
    *arguments: str, given: bytes = b"", environ: Mapping[str, str] | None = None
) -> CommandResult:
    """The same as `called`, while this loop goes on."""
    return await asyncio.to_thread(_call, arguments, given, environ)


def _call(
    arguments: Sequence[str], given: bytes, environ: Mapping[str, str] | None
) -> CommandResult:
    clean = clean_environment(environ)
    unset = dict.fromkeys(set(os.environ) - set(clean))
    with restore_logging():
        result = CliRunner().invoke(app, arguments, input=given, env={**unset, **clean})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return CommandResult(result.exit_code, result.stdout, result.stderr)


@contextmanager
def serve_router(
    *arguments: str,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    command: Sequence[str] = COMMAND,
) -> Iterator["ServedRouter"]:
    """`router serve …`, ready."""
    with run_process(*command, "serve", *arguments, cwd=cwd, environ=environ) as (process, ready):
        yield ServedRouter(process, ready)


@contextmanager
def run_process(
    *command: str, cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> Iterator["tuple[subprocess.Popen[str], Any]"]:
    """A process, and the JSON line that it says first; killed in the end if it still runs."""
    process = subprocess.Popen(
        command,
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        cwd=cwd,
        env=clean_environment({"PYTHONPATH": os.getcwd(), **(environ or {})}),
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield process, json.loads(line)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


class ServedRouter:
    """A served router; `ready` is its JSON line."""

    def __init__(self, process: "subprocess.Popen[str]", ready: Mapping[str, str]) -> None:
        self.process = process
        self.ready = ready

    def list_children(self) -> Sequence[int]:
        """The pids of its children."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(child) for path in tasks for child in path.read_text().split()]

    def is_pending(self, number: signal.Signals) -> bool:
        """Whether the process has not taken this signal yet."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return bool(int(status.split("ShdPnd:")[1].split()[0], 16) >> (number - 1) & 1)

    def told(self, number: signal.Signals, *, within_s: float = ENDED_WITHIN_S) -> int:
        """Send a signal, and wait for the exit status."""
        self.process.send_signal(number)
        return self.process.wait(within_s)


def clean_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of the tests without settings of Router or NATS, but for the time of a first
    connection.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ROUTER_", "NATS_"))
    }
    return {**kept, **PATIENT, **(environ or {})}


def table_words(text: str) -> Sequence[str]:
    """What a table says, whatever its layout."""
    return text.split()
