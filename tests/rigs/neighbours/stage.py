"""One row's stage: `router serve --embedded` of a tree, which starts its own nats-server as it
would anywhere.

Settings are the defaults, but for where things are: any free port for pages and server, a store of
its own, and the policies and extensions of this file. Both tenants are decided by the same shared
policy unless a row says otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.rigs.neighbours.asking import LOUD, PROVIDERS
from tests.rigs.neighbours.part import Broken
from tests.rigs.neighbours.tree import Tree

READY_S = 120.0
MIB = 1024 * 1024
LATE_TIMEOUT_MS = 25_000  # of the extension that takes 19 s

Document = dict[str, Any]

DEFAULT: Document = {
    "version": "1.0",
    "providers": [
        {"name": name, "weight": 40, "expected_latency_ms": 500, "expected_cost": 0.01}
        for name in PROVIDERS
    ],
    "circuit_breaker": {},
}
EXTENSIONS: dict[str, Document] = {
    "hanging": {"type": "pre", "subject": "beamline.ext.pre.hanging.v1"},
    "late": {"type": "pre", "subject": "beamline.ext.pre.late.v1", "timeout_ms": LATE_TIMEOUT_MS},
    "echo": {"type": "pre", "subject": "beamline.ext.pre.echo.v1"},
    "own": {"type": "pre", "subject": "beamline.ext.pre.own.v1"},
    "honest": {"type": "provider", "subject": "beamline.provider.honest.v1"},
    "trickle": {"type": "provider", "subject": "beamline.provider.trickle.v1"},
}
POLICIES: dict[str, Document] = {
    "_shared/default": DEFAULT,
    # so the quiet tenant has no policy of its own: its turn in the round is earned
    "_shared/own": {**DEFAULT, "pre": [{"id": "own"}]},
    f"{LOUD}/hanging": {**DEFAULT, "pre": [{"id": "hanging"}]},
    f"{LOUD}/late": {**DEFAULT, "pre": [{"id": "late"}]},
    f"{LOUD}/echo": {**DEFAULT, "pre": [{"id": "echo"}]},
}


class Stage:
    """A router that is ready."""

    def __init__(self, process: Process, home: Path, url: str, pages: str) -> None:
        self._process = process
        self._home = home
        self.url = url
        self.pages = pages
        self.server_pid = _only_child(process.pid)

    @property
    def router_pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    def resident_mib(self) -> float:
        """Of the router; 0 when it is gone."""
        try:
            return (
                int(Path(f"/proc/{self.router_pid}/statm").read_text().split()[1])
                * os.sysconf("SC_PAGE_SIZE")
                / MIB
            )
        except OSError:
            return 0.0

    def cpu_s(self) -> tuple[float, float]:
        """Processor seconds so far, of the router and of the server."""
        return _cpu_s(self.router_pid), _cpu_s(self.server_pid)

    def last_words(self) -> str:
        return (self._home / "router.log").read_text(errors="replace")[-2000:]


@contextlib.asynccontextmanager
async def on_stage(tree: Tree) -> AsyncIterator[Stage]:
    """Router and server are gone in the end, and their store."""
    home = Path(tempfile.mkdtemp(prefix="router-neighbours-"))
    stage: Stage | None = None
    process: Process | None = None
    try:
        process = await _spawned(tree, home)
        ready = await _ready(process, home)
        stage = Stage(process, home, ready["nats_url"], ready["http"])
        yield stage
    finally:
        if process is not None:
            await _end(process, stage)
        shutil.rmtree(home, ignore_errors=True)


async def _spawned(tree: Tree, home: Path) -> Process:
    for name, document in POLICIES.items():
        _write(home / "policies" / f"{name}.json", document)
    for name, document in EXTENSIONS.items():
        _write(home / "extensions" / f"{name}.json", {"id": name, **document})
    places = (
        "--store",
        str(home / "store"),
        "--policies",
        str(home / "policies"),
        "--nats-port",
        "0",
        "--http-port",
        "0",
    )
    with (home / "router.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *tree.program, *places),
            cwd=tree.path,
            env={**tree.environ, "ROUTER_EXTENSIONS__DIR": str(home / "extensions")},
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )


async def _ready(process: Process, home: Path) -> Document:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(READY_S):
            line = await process.stdout.readline()
    except TimeoutError:
        line = b""
    if not line:
        raise Broken(
            f"the router is not ready: {(home / 'router.log').read_text(errors='replace')[-2000:]}"
        )
    ready: Document = json.loads(line)
    return ready


async def _end(process: Process, stage: Stage | None) -> None:
    """What it stored is thrown away, so nothing has to be drained."""
    server = stage.server_pid if stage is not None else _only_child(process.pid)
    if process.returncode is None:
        process.kill()
    await process.wait()
    if server:
        with contextlib.suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)
        await asyncio.to_thread(_wait_for_end_of, server)


def _wait_for_end_of(pid: int) -> None:
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def _only_child(pid: int) -> int:
    """The server's id; 0 when there is none (any more)."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return int(found[0]) if found else 0


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _write(file: Path, document: Document) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))
