"""The processes that a load is sent from: the parent's side of each, and the child's program,
`python -m router.decide.commands.load.processes FD`.

    parent   Prepare     how to connect, what is sent   child   Prepared
             Run         one run                                Counted … RunEnded
             StopRun     early                                  (Counted, RunEnded)
             StartEcho   answer all that comes                  Echoing, on a subject of its own
                                                                Failed: instead of any of them

The load does not share a process with the command: what is printed holds up no request, and the
event loop is one whose timers are finer than a millisecond. Ctrl-C reaches the parent alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import pickle
import selectors
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from subprocess import DEVNULL
from typing import TypeVar

import msgspec
import nats.errors
from msgspec import Struct

from router.config.connect import connect_by
from router.core.errors import BrokerUnavailable, PermissionDenied, RouterError, describe_causes
from router.decide.commands.load.loops import Loop, LoopPlan, make_loop
from router.decide.commands.load.tally import LoadTally
from router.delivery.settings import NatsConfig
from router.delivery.wire.connection import Connection
from router.process.child_process import Ipc, stop_process

PROGRAM = ("-m", "router.decide.commands.load.processes")
STDERR = 2
STOP_S = 5.0
Frame = TypeVar("Frame", bound=Struct)

# -- The frames.


class Prepare(Struct, tag=True):
    """`nats`: pickled, because secrets hide from every other encoding. Requests begin with `name`."""

    nats: bytes
    rests: tuple[bytes, ...]
    name: str


class Run(Struct, tag=True):
    plan: LoopPlan


class StopRun(Struct, tag=True):
    """Send nothing more, and tell what was counted."""


class StartEcho(Struct, tag=True):
    """Answer every request with this."""

    answer: bytes


class Prepared(Struct, tag=True):
    """It is connected."""


class Echoing(Struct, tag=True):
    subject: str


class Counted(Struct, tag=True):
    """What was counted since the last one."""

    tally: LoadTally


class RunEnded(Struct, tag=True):
    """The run, with its last answers."""


class Failed(Struct, tag=True):
    """`kind`: a name of ERRORS, or any other."""

    kind: str
    text: str


FromParent = Prepare | Run | StopRun | StartEcho
FromChild = Prepared | Echoing | Counted | RunEnded | Failed
ERRORS = {error.__name__: error for error in (PermissionDenied, BrokerUnavailable)}


# -- The parent's side.


class AskingProcess:
    """One process, and the frames that it sends, in order."""

    def __init__(self) -> None:
        self._ipc = Ipc(msgspec.msgpack.Decoder(FromChild), self._on_frame, self._on_closed)
        self._frames: asyncio.Queue[FromChild | None] = asyncio.Queue()
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it without waiting. What it logs goes to standard error."""
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
            raise

    def tell(self, frame: FromParent) -> None:
        self._ipc.send(frame)

    async def expect(self, kind: type[Frame]) -> Frame:
        """Wait for a frame. Raises what the child says has failed."""
        match await self._frames.get():
            case Failed(kind=name, text=text):
                raise ERRORS.get(name, RouterError)(text)
            case None:
                raise RouterError("a process of the load has ended")
            case frame if isinstance(frame, kind):
                return frame
            case frame:
                raise AssertionError(frame)

    async def collect(self, on_tally: Callable[[LoadTally], None]) -> list[LoadTally]:
        """What it counts until its run ends."""
        told: list[LoadTally] = []
        while isinstance(frame := await self.expect(Struct), Counted):
            told.append(frame.tally)
            on_tally(frame.tally)
        return told

    async def stop(self) -> None:
        await self._ipc.close()
        if self._process is not None:
            await stop_process(self._process, STOP_S)

    def _on_frame(self, frame: FromChild) -> None:
        self._frames.put_nowait(frame)

    def _on_closed(self) -> None:
        self._frames.put_nowait(None)


class AskingProcesses:
    """Processes that send one load together."""

    def __init__(self, processes: Sequence[AskingProcess]) -> None:
        self._processes = processes

    async def run(
        self, plan: LoopPlan, on_tally: Callable[[LoadTally], None] = lambda _: None
    ) -> list[list[LoadTally]]:
        """What each counted of its share. `on_tally` hears all of them as they come."""
        for process, share in zip(
            self._processes, share_plan(plan, len(self._processes)), strict=True
        ):
            process.tell(Run(share))
        return await asyncio.gather(*(process.collect(on_tally) for process in self._processes))

    def stop(self) -> None:
        """End the run early."""
        for process in self._processes:
            process.tell(StopRun())


@contextlib.asynccontextmanager
async def start_processes(
    count: int, nats_config: NatsConfig, rests: Sequence[bytes], name: str
) -> AsyncIterator[AskingProcesses]:
    """Processes that are connected. Raises BrokerUnavailable."""
    processes = [AskingProcess() for _ in range(count)]
    try:
        for number, process in enumerate(processes):
            await process.start()
            process.tell(Prepare(pickle.dumps(nats_config), tuple(rests), f"{name}-{number}"))
        await asyncio.gather(*(process.expect(Prepared) for process in processes))
        yield AskingProcesses(processes)
    finally:
        await asyncio.gather(*(process.stop() for process in processes))


@contextlib.asynccontextmanager
async def start_responder(nats_config: NatsConfig, answer: bytes) -> AsyncIterator[str]:
    """A process that answers every request alike: the subject. Raises PermissionDenied."""
    responder = AskingProcess()
    try:
        await responder.start()
        responder.tell(Prepare(pickle.dumps(nats_config), (), ""))
        await responder.expect(Prepared)
        responder.tell(StartEcho(answer))
        yield (await responder.expect(Echoing)).subject
    finally:
        await responder.stop()


def share_plan(plan: LoopPlan, count: int) -> list[LoopPlan]:
    """What each of so many processes sends of it. The times at which requests are due alternate."""
    each, more = divmod(plan.in_flight, count)
    return [
        msgspec.structs.replace(
            plan,
            in_flight=each + (number < more),
            rate=plan.rate / count,
            phase=number / count,
        )
        for number in range(count)
    ]


# -- The child.


class LoadChild:
    """Does what its parent says, until that closes the pair."""

    def __init__(self) -> None:
        self.ipc = Ipc(
            msgspec.msgpack.Decoder(FromParent), self._on_frame, lambda: self._on_frame(None)
        )
        self._frames: asyncio.Queue[FromParent | None] = asyncio.Queue()
        self._connection: Connection | None = None
        self._rests: tuple[bytes, ...] = ()
        self._name = ""
        self._running: Loop | None = None
        self._runs = 0
        self._is_stopped = False

    async def serve(self) -> None:
        try:
            while (frame := await self._frames.get()) is not None:
                await self._do(frame)
        except (RouterError, nats.errors.Error, OSError) as exc:
            self.ipc.send(Failed(find_kind(exc), describe_causes(exc) or type(exc).__name__))
        finally:
            if self._connection is not None:
                await self._connection.close()
            await self.ipc.close()

    async def _do(self, frame: FromParent) -> None:
        match frame:
            case Prepare():
                config = pickle.loads(frame.nats)  # noqa: S301 - from the parent, over an inherited descriptor
                self._rests, self._name = frame.rests, frame.name
                self._connection = await connect_by(config)
                self.ipc.send(Prepared())
            case StartEcho() if self._connection is not None:
                self.ipc.send(Echoing(await echo(self._connection, frame.answer)))
            case Run() if self._connection is not None:
                self._runs += 1
                name = f"{self._name}{self._runs}"
                self._running = make_loop(self._connection, frame.plan, self._rests, name)
                if self._is_stopped:
                    self._running.stop()
                await self._running.run(lambda tally: self.ipc.send(Counted(tally)))
                self._running = None
                self.ipc.send(RunEnded())

    def _on_frame(self, frame: FromParent | None) -> None:
        if frame is not None and not isinstance(frame, StopRun):
            self._frames.put_nowait(frame)
            return
        self._is_stopped = True  # also a run that is asked for, and has not begun
        if self._running is not None:
            self._running.stop()
        if frame is None:
            self._frames.put_nowait(None)


def find_kind(exc: Exception) -> str:
    """Which of ERRORS the parent raises; a connection that fails is a broker that is not there."""
    if not isinstance(exc, RouterError):
        return BrokerUnavailable.__name__
    return next((name for name, kind in ERRORS.items() if isinstance(exc, kind)), "")


async def echo(connection: Connection, answer: bytes) -> str:
    """Answer on an inbox of this connection from now on: its subject. Raises PermissionDenied."""
    subject = connection.new_inbox()
    await connection.subscribe_raw(subject, partial(_answer, connection, answer))
    await connection.require_permission(subject)
    return subject


def _answer(
    connection: Connection,
    answer: bytes,
    _subject: bytes,
    reply: bytes,
    _data: bytes,
    _head: bytes | None,
) -> None:
    if reply:
        connection.publish_many([(reply, answer)])


async def _serve_parent(end: socket.socket) -> None:
    child = LoadChild()
    await child.ipc.open(end)
    await child.serve()


def main(descriptor: int) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # nothing that is made for a request is part of a cycle, and a collection would hold up answers
    gc.disable()
    # epoll, asyncio's choice, rounds every wait up to a millisecond, which latencies would show
    with (
        socket.socket(fileno=descriptor) as end,
        asyncio.Runner(
            loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())
        ) as runner,
    ):
        end.set_inheritable(False)
        runner.run(_serve_parent(end))


if __name__ == "__main__":
    main(int(sys.argv[1]))
