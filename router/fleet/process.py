"""One worker process, from outside: begun, asked, told to end, and what it said when it did."""

from __future__ import annotations

import asyncio
import pickle
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from subprocess import DEVNULL
from types import MappingProxyType

import msgspec

from router.clock import steady
from router.config import Settings
from router.errors import Misconfigured, RouterError
from router.fleet.adding import lasting
from router.fleet.build import build
from router.fleet.line import Ask, Begin, FromWorker, Line, Refused, Report, Started
from router.observability import ReadinessCheck, events, logs
from router.observability.exposition import Snapshot, process_families

log = logs.logger(__name__)

PROGRAM = ("-m", "router.fleet.worker")
STDERR = 2
SILENT_S = 3.0  # without a word for so long, it is not ready, and how it stood is not told any more
ENDING_S = 5.0  # beyond a worker's own hard deadline: its other children, and the interpreter
QUESTIONS = 8  # open at once; whoever asks beyond that shares the last one's answer
NO_CHECKS: Mapping[str, ReadinessCheck] = MappingProxyType({})


class WorkerEnded(RouterError):
    """A worker process ended without having been told to, or could not even be started."""

    code = "worker_ended"


class WorkerProcess:
    """`number`: its seat, the value of its `worker` label. `on_ready` is called when it answers requests."""

    def __init__(self, number: int, on_ready: Callable[[], None]) -> None:
        self.nats_url: str | None = None  # once it answers requests
        self._number = str(number)
        self._on_ready = on_ready
        self._line = Line(msgspec.msgpack.Decoder(FromWorker), self._hear, self._lost)
        self._process: asyncio.subprocess.Process | None = None
        self._refused: Refused | None = None
        self._checks = NO_CHECKS
        self._families: Snapshot = ()
        self._heard_at = steady()
        self._asked: list[asyncio.Future[None]] = []
        self._changed = asyncio.Event()  # it has started, or is gone
        self._gone = asyncio.Event()
        self._is_told = False
        self._is_killed = False
        self._ends_within_s = ENDING_S  # from its being told

    async def begin(self, settings: Settings) -> None:
        """Start it; returns at once. Its standard output is our standard error: what we say is for programs.

        Raises OSError where the system has no process or no descriptor left for it.
        """
        self._ends_within_s = ends_within_s(settings)
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, *PROGRAM, str(theirs.fileno())),
                    pass_fds=(theirs.fileno(),),
                    stdin=DEVNULL,
                    stdout=STDERR,
                    start_new_session=True,  # Ctrl-C in the terminal is the parent's
                )
            await self._line.open(ours)
        except BaseException:  # cancelled meanwhile as well
            ours.close()  # a process that did start hears it, and ends
            self._lost()
            raise
        self._line.say(Begin(pickle.dumps(settings), build()))

    # -- how it stands -------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def check(self) -> ReadinessCheck:
        """Its line in /readyz."""
        silent_s = steady() - self._heard_at
        if self.nats_url is None:
            return ReadinessCheck(False, f"process {self.pid} is starting")
        if silent_s > SILENT_S:
            return ReadinessCheck(False, f"process {self.pid} has said nothing for {silent_s:.0f} s")
        ill = "; ".join(f"{name}: {check.detail}" for name, check in self._checks.items() if not check.ok)
        return ReadinessCheck(not ill, ill or f"process {self.pid}")

    @property
    def families(self) -> Snapshot:
        """What it told last; of a silent one only what it counted."""
        return self._families if steady() - self._heard_at <= SILENT_S else lasting(self._families)

    @property
    def ended(self) -> RouterError | None:
        """Of one that is gone: why. None: it was told to go, or left in peace."""
        status = self._process.returncode if self._process is not None else 0
        if self._refused is not None and self._refused.setting:
            return Misconfigured(self._refused.setting, self._refused.text)
        if self._is_told or not status:
            return None
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        why = f": {self._refused.text}" if self._refused is not None else ""
        return WorkerEnded(f"worker-{self._number}, process {self.pid}, {how}{why}")

    def ask(self) -> asyncio.Future[None]:
        """Done when it has told how it stands, or is not there (yet); whoever waits for it must not wait for ever."""
        if len(self._asked) >= QUESTIONS:
            return self._asked[-1]
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.nats_url is None or self._gone.is_set():
            answer.set_result(None)
        else:
            self._asked.append(answer)
            self._line.say(Ask())
        return answer

    async def becomes_ready(self, within_s: float) -> bool:
        """Wait until it answers requests, or never will."""
        try:
            async with asyncio.timeout(within_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        return not self._gone.is_set()

    # -- its end -------------------------------------------------------------------------------------------------

    async def is_gone(self, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                await self._leaving()
        except TimeoutError:
            return False
        return True

    def tell(self) -> None:
        """SIGTERM: drain, and end. Told twice it would be the same."""
        if not self._is_told and self._process is not None and self._process.returncode is None:
            self._process.terminate()
        self._is_told = True

    def kill(self) -> None:
        """SIGKILL: what it has in hand is delivered again, to another one."""
        if self._process is not None and self._process.returncode is None and not self._is_killed:
            self._is_killed = True
            log.warning(events.PROCESS_KILLED, worker=f"worker-{self._number}", pid=self.pid)
            self._process.kill()

    async def end(self) -> None:
        """Tell it, and wait. One that hangs beyond its deadlines is killed; so is every one when this is cancelled."""
        self.tell()
        try:
            if not await self.is_gone(self._ends_within_s):
                self.kill()
                await self._leaving()
        except asyncio.CancelledError:
            self.kill()
            raise

    async def _leaving(self) -> None:
        if self._process is not None:
            await self._gone.wait()  # the line first: it brings the last report
            await self._process.wait()

    # -- what it says --------------------------------------------------------------------------------------------

    def _hear(self, said: FromWorker) -> None:
        self._heard_at = steady()
        match said:
            case Started():
                self.nats_url = said.nats_url
                self._changed.set()
                self.ask()
                self._on_ready()
            case Report():
                self._checks = said.checks
                self._families = (*said.families, *process_families(self.pid, "worker", self._number))
                if self._asked:
                    _answer(self._asked.pop(0))
            case Refused():
                self._refused = said

    def _lost(self) -> None:
        self._gone.set()
        self._changed.set()
        while self._asked:
            _answer(self._asked.pop())


def ends_within_s(settings: Settings) -> float:
    """How long a process that was told to end may take; after that it hangs."""
    return settings.drain.hard_deadline_ms / 1000 + ENDING_S


def _answer(asked: asyncio.Future[None]) -> None:
    if not asked.done():
        asked.set_result(None)
