"""Programs as forks of a process that has imported their libraries.

A start of `python -m router` costs half a second of the processor, most of it for imports, and the
stories of killed processes start some two hundred. The fork server imports all of it once. For each
start it forks, and the child runs the module as `python -m` does: a process with its own
environment, signals and exit status. What the import of a module takes from the environment or the
process, its crash point and its node id, each child is given anew. Tests of the commands themselves
start them as users do: `tests.support.cli`.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock

from router.core import crashpoints

IMPORTED = (
    "router.serve.service",
    "router.serve.fleet",
    "router.mailbox.relay_process",
    "router.bus",
    "router.cli.app",
    "router.operate.commands.dead_letters.replay",
    "router.serve.commands.serve",
    "router.work.commands.workers",
    "router.agents.agent",
    "tests.support.kills",
)
ROOT = Path(__file__).parents[2]


class ForkedProgram:
    """A child of the fork server: the part of `subprocess.Popen` that the stories use."""

    def __init__(self, status: socket.socket, stdout: int) -> None:
        self._status = status.makefile("r")
        self.stdout = os.fdopen(stdout)
        self.pid = int(self._status.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._read_status(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._read_status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _read_status(self, within_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], within_s)[0]:
            self.returncode = int(self._status.readline())
            self._status.close()
        return self.returncode


class ForkServer:
    """The parent's end: one server a session."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.support.forking", str(theirs.fileno())]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        theirs.close()
        self._lock = Lock()

    def start(self, arguments: Sequence[str], environ: Mapping[str, str]) -> ForkedProgram:
        """`python -m` with these arguments; what it writes to its standard error is not kept."""
        request = json.dumps(
            {"arguments": arguments, "environ": dict(environ), "directory": os.getcwd()}
        )
        status, theirs = socket.socketpair()
        reads, writes = os.pipe()
        try:
            with self._lock:
                socket.send_fds(
                    self._channel, [f"{len(request):8}".encode()], [theirs.fileno(), writes]
                )
                self._channel.sendall(request.encode())
            theirs.close()
            return ForkedProgram(status, reads)
        finally:
            status.close()  # its file holds it
            os.close(writes)

    def stop(self) -> None:
        """The server ends with its channel; its children live on."""
        self._channel.close()
        self._process.wait()


@cache
def fork_server() -> ForkServer:
    server = ForkServer()
    atexit.register(server.stop)
    return server


# -- the server's end ------------------------------------------------------------------------------


_points: list[crashpoints.Point] = []


def serve(channel: socket.socket) -> Sequence[str] | None:
    """Fork for each request until the channel is closed. Returns in each child: what it is to run."""
    children: dict[int, socket.socket] = {}
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writes)
    while True:
        ready, _, _ = select.select([channel, reads], [], [])
        if reads in ready:
            os.read(reads, 4096)
            _report_ended(children)
        if channel in ready:
            size, descriptors, _, _ = socket.recv_fds(channel, 8, 2)
            if not size:
                return None
            request = json.loads(_read_exactly(channel, int(size)))
            status = socket.socket(fileno=descriptors[0])
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for opened in (channel, status, *children.values()):
                    opened.close()
                for descriptor in (reads, writes):
                    os.close(descriptor)
                return _become(request, descriptors[1])
            os.close(descriptors[1])
            children[pid] = status
            status.sendall(f"{pid}\n".encode())


def _report_ended(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with children.pop(pid) as told:
            told.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _read_exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += channel.recv(size - len(data))
    return data


def _become(request: Mapping[str, object], stdout: int) -> Sequence[str]:
    """This process is what was asked for: its output, its directory and its environment."""
    os.dup2(stdout, 1)
    os.close(stdout)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    os.chdir(str(request["directory"]))
    os.environ.clear()
    os.environ.update(request["environ"])  # type: ignore[call-overload]
    _arm(os.environ.get("CRASHPOINT"))
    # the settings' default was made with the server's
    os.environ.setdefault("ROUTER_NODE_ID", f"{socket.gethostname()}:{os.getpid()}")
    return request["arguments"]  # type: ignore[return-value]


def _arm(setting: str | None) -> None:
    _points[:] = [
        crashpoints._resolve(setting, crashpoints._die),
        crashpoints._resolve(setting, crashpoints._die_after_flush),
    ]


def main() -> None:
    # before any other module of the router takes them
    crashpoints.crashpoint = lambda name: _points[0](name)
    crashpoints.crashpoint_sent = lambda name: _points[1](name)
    for name in IMPORTED:
        import_module(name)
    gc.freeze()
    arguments = serve(socket.socket(fileno=int(sys.argv[1])))
    if arguments is not None:
        sys.argv = [*arguments]
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
