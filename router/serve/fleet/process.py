"""One child process, as its parent sees it: starts it, asks for its status, stops it, and knows why
it ended.

A child that says nothing for too long is killed; `SilenceCounter`, which stands first, says for how
long it has said nothing.
"""

from __future__ import annotations

import asyncio
import pickle
import signal
import socket
import sys
from collections.abc import Mapping
from subprocess import DEVNULL
from types import MappingProxyType

import msgspec

from router.config import Settings
from router.core.clock import Clock, steady
from router.core.errors import Misconfigured, RouterError
from router.process.child_process import Ipc
from router.process.observability import ReadinessCheck, events, logs
from router.process.observability.exposition import Snapshot, process_families
from router.serve.fleet.ipc import (
    ChildFailed,
    ChildStarted,
    ChildStatus,
    FromChild,
    ReadStatus,
    StartChild,
    build_id,
)
from router.serve.fleet.merge_snapshots import drop_gauges

# -- The process.

log = logs.logger(__name__)

PROGRAM = ("-m", "router.serve.fleet.child")
STDERR = 2
# after so long without a message the child is not ready, and its gauges are left out
CHILD_SILENCE_S = 3.0
STOP_MARGIN_S = 5.0  # beyond a child's own hard deadline: for its other tasks and the interpreter
MAX_PENDING_REQUESTS = 8  # status requests on their way; further ones wait for the last of these
NO_CHECKS: Mapping[str, ReadinessCheck] = MappingProxyType({})


class ChildEnded(RouterError):
    """A child process ended without being told to, or could not be started."""

    code = "process_ended"


class ChildProcess:
    """`number`: its slot, the value of the label `process`."""

    def __init__(self, number: int) -> None:
        self.nats_url: str | None = None  # once it answers requests
        self._number = str(number)
        self._ipc = Ipc(msgspec.msgpack.Decoder(FromChild), self._on_frame, self._on_closed)
        self._process: asyncio.subprocess.Process | None = None
        self._reported: ChildFailed | None = None
        self._checks = NO_CHECKS
        self._families: Snapshot = ()
        self._last_frame_at = steady()
        self._silence: SilenceCounter | None = None  # once it answers requests
        self._pending: list[asyncio.Future[None]] = []
        self._started_or_closed = asyncio.Event()
        self._closed = asyncio.Event()
        self._is_terminated = False
        self._is_killed = False
        self._is_hung = False
        self._stop_timeout_s = STOP_MARGIN_S  # from SIGTERM on
        self._most_silence_s = 0.0  # 0 = any

    async def start(self, settings: Settings) -> None:
        """Start it without waiting. Its standard output is the parent's standard error, because the
        parent's output is for programs.

        Raises OSError if the system has no process or no file descriptor left.
        """
        self._stop_timeout_s = stop_timeout_s(settings)
        self._most_silence_s = settings.process_silence_ms / 1000
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, *PROGRAM, str(theirs.fileno())),
                    pass_fds=(theirs.fileno(),),
                    stdin=DEVNULL,
                    stdout=STDERR,
                    start_new_session=True,  # Ctrl-C in the terminal goes to the parent only
                )
            await self._ipc.open(ours)
        except BaseException:  # also when cancelled
            ours.close()  # a process that did start notices, and ends
            self._on_closed()
            raise
        self._ipc.send(StartChild(pickle.dumps(settings), build_id()))

    # -- its status --------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def check(self) -> ReadinessCheck:
        """Its entry in /readyz."""
        silence_s = steady() - self._last_frame_at
        if self.nats_url is None:
            return ReadinessCheck(False, f"process {self.pid} is starting")
        if silence_s > CHILD_SILENCE_S:
            return ReadinessCheck(
                False, f"process {self.pid} has said nothing for {silence_s:.0f} s"
            )
        problems = "; ".join(
            f"{name}: {check.detail}" for name, check in self._checks.items() if not check.ok
        )
        return ReadinessCheck(not problems, problems or f"process {self.pid}")

    @property
    def families(self) -> Snapshot:
        """Its last metrics; without gauges when it is silent."""
        return (
            self._families
            if steady() - self._last_frame_at <= CHILD_SILENCE_S
            else drop_gauges(self._families)
        )

    @property
    def failure(self) -> RouterError | None:
        """Why it ended; None if it was told to, or ended with status 0."""
        status = self._process.returncode if self._process is not None else 0
        if self._reported is not None and self._reported.setting:
            return Misconfigured(self._reported.setting, self._reported.text)
        if self._is_terminated or not status:
            return None
        how = (
            f"was killed by {signal.Signals(-status).name}"
            if status < 0
            else f"ended with status {status}"
        )
        why = f": {self._reported.text}" if self._reported is not None else ""
        if self._is_hung:
            why = f": its event loop said nothing for {self._most_silence_s:g} s"
        return ChildEnded(f"process-{self._number}, process {self.pid}, {how}{why}")

    def request_status(self) -> asyncio.Future[None]:
        """Done when the status has arrived, or the process has not started or has ended. The caller
        must limit its wait.
        """
        if len(self._pending) >= MAX_PENDING_REQUESTS:
            return self._pending[-1]
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.nats_url is None or self._closed.is_set():
            answer.set_result(None)
        else:
            self._pending.append(answer)
            self._ipc.send(ReadStatus())
        return answer

    def end_if_silent(self, interval_s: float) -> None:
        """Call it at each interval, with a status request. A child whose event loop hangs is
        killed, so that another one takes its slot.
        """
        if self.nats_url is None or self._is_terminated or not self._most_silence_s:
            return
        if self._silence is None:
            self._silence = SilenceCounter(interval_s)
        self._silence.look(self._last_frame_at)
        if self._silence.seconds >= self._most_silence_s and not self._is_hung:
            self._is_hung = True
            log.error(
                events.PROCESS_SILENT,
                process=f"process-{self._number}",
                pid=self.pid,
                silent_s=self._most_silence_s,
            )
            self.kill()

    async def wait_until_ready(self, timeout_s: float) -> bool:
        """Wait until it answers requests. Returns False if it ended, or the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._started_or_closed.wait()
                if self._closed.is_set():
                    await self._wait()  # `failure` names its status
        except TimeoutError:
            return False
        return not self._closed.is_set()

    # -- its end -----------------------------------------------------------------------------------

    async def wait_until_ended(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await self._wait()
        except TimeoutError:
            return False
        return True

    def terminate(self) -> None:
        """SIGTERM, once: it drains and ends."""
        if (
            not self._is_terminated
            and self._process is not None
            and self._process.returncode is None
        ):
            self._process.terminate()
        self._is_terminated = True

    def kill(self) -> None:
        """SIGKILL: the server redelivers its messages in flight to another process."""
        if self._process is not None and self._process.returncode is None and not self._is_killed:
            self._is_killed = True
            log.warning(events.PROCESS_KILLED, process=f"process-{self._number}", pid=self.pid)
            self._process.kill()

    async def stop(self) -> None:
        """Terminate it and wait. It is killed when it exceeds its deadlines, or when this call is
        cancelled.
        """
        self.terminate()
        try:
            if not await self.wait_until_ended(self._stop_timeout_s):
                self.kill()
                await self._wait()
        except asyncio.CancelledError:
            self.kill()
            raise

    async def _wait(self) -> None:
        if self._process is not None:
            await self._closed.wait()  # first the socket pair: it delivers the last status
            await self._process.wait()

    # -- its messages ------------------------------------------------------------------------------

    def _on_frame(self, frame: FromChild) -> None:
        self._last_frame_at = steady()
        match frame:
            case ChildStarted():
                self.nats_url = frame.nats_url
                self._started_or_closed.set()
                self.request_status()
            case ChildStatus():
                self._checks = frame.checks
                self._families = (*frame.families, *process_families(self.pid, self._number))
                if self._pending:
                    _resolve(self._pending.pop(0))
            case ChildFailed():
                self._reported = frame

    def _on_closed(self) -> None:
        self._closed.set()
        self._started_or_closed.set()
        while self._pending:
            _resolve(self._pending.pop())


def stop_timeout_s(settings: Settings) -> float:
    """How long a terminated process may take until it is killed."""
    return settings.drain.hard_deadline_ms / 1000 + STOP_MARGIN_S


def _resolve(answer: asyncio.Future[None]) -> None:
    if not answer.done():
        answer.set_result(None)


# -- For how long a child has said nothing while its parent was awake.
#
# The parent asks for the status twice a second, and a child whose event loop runs answers. What
# the clock says is not enough: where the machine was suspended, or the parent stood still
# itself, the child had no chance to be heard. So each look adds what has passed since the last
# look, and no more than two regular intervals.


class SilenceCounter:
    """Of one child. `interval_s`: between two looks, if nothing holds the parent up."""

    def __init__(self, interval_s: float, clock: Clock = steady) -> None:
        self._most_s = 2 * interval_s
        self._clock = clock
        self._looked_at = clock()
        self._heard_at = self._looked_at
        self.seconds = 0.0

    def look(self, heard_at: float) -> None:
        """Call it at each interval. `heard_at`: steady seconds of the child's newest message."""
        now = self._clock()
        passed, self._looked_at = now - self._looked_at, now
        is_silent, self._heard_at = heard_at <= self._heard_at, heard_at
        self.seconds = self.seconds + min(passed, self._most_s) if is_silent else 0.0
