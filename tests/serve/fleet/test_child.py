"""Inside a child process: which settings it accepts, and what a second SIGTERM does."""

import asyncio
import contextlib
import os
import pickle
import signal
import socket
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace

import msgspec
import pytest

from router.config import Settings
from router.process.child_process import Ipc
from router.serve.fleet import child
from router.serve.fleet.ipc import (
    ChildFailed,
    ChildStarted,
    FromChild,
    ReadStatus,
    StartChild,
    build_id,
)
from tests.support.waiting import until


class SlowService:
    """Started at once; its drain takes as long as the test wants it to."""

    may_end: asyncio.Event
    drains: bool
    drained: bool

    def __init__(self, settings: Settings, *, http: bool) -> None:
        self.metrics = SimpleNamespace(registry=SimpleNamespace(snapshot=tuple))

    def readiness(self) -> dict[str, object]:
        return {}

    async def run(self, on_ready: Callable[[SimpleNamespace], None]) -> None:
        on_ready(SimpleNamespace(nats_url="nats://there"))
        try:
            await asyncio.Event().wait()
        finally:
            SlowService.drains = True
            await self.may_end.wait()
            SlowService.drained = True


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> type[SlowService]:
    SlowService.may_end, SlowService.drains, SlowService.drained = asyncio.Event(), False, False
    monkeypatch.setattr(child, "RouterService", SlowService)
    monkeypatch.setattr(child, "configure", lambda *_, **__: None)
    return SlowService


@contextlib.asynccontextmanager
async def a_parent(
    heard: list[FromChild],
) -> AsyncIterator[tuple[Ipc[FromChild], "asyncio.Task[int]"]]:
    """The parent's end of the socket pair, and the task of the child at the other end."""
    ours, theirs = socket.socketpair()
    life = asyncio.create_task(child._run(theirs))
    line = Ipc(msgspec.msgpack.Decoder(FromChild), heard.append, lambda: None)
    await line.open(ours)
    try:
        yield line, life
    finally:
        await line.close()
        await asyncio.wait({life})


def a_begin(whose: str) -> StartChild:
    return StartChild(pickle.dumps(Settings()), whose)


async def test_a_second_sigterm_does_not_cut_the_drain_short(service: type[SlowService]) -> None:
    heard: list[FromChild] = []
    async with a_parent(heard) as (line, life):
        line.send(a_begin(build_id()))
        await until(lambda: ChildStarted("nats://there") in heard)
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: service.drains)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait({life}, timeout=0.05)
        await line.close()
        await asyncio.wait({life}, timeout=0.05)
        assert not life.done()
        service.may_end.set()
        assert await life == child.OK
    assert service.drained


async def test_settings_of_another_build_are_refused_before_they_are_looked_at() -> None:
    heard: list[FromChild] = []
    async with a_parent(heard) as (line, life):
        line.send(StartChild(b"no pickle", "0.0.9+of an older parent"))
        assert await life == child.FAILED
        await until(lambda: heard)
    assert heard == [
        ChildFailed("", "the code has changed since this parent was started: restart it")
    ]


async def test_a_frame_that_arrives_after_sigterm_is_no_error() -> None:
    early = child.ChildService(lambda: None)
    serving = asyncio.create_task(early.serve())
    await asyncio.sleep(0)
    serving.cancel()
    await asyncio.wait({serving})
    early._on_frame(a_begin(build_id()))
    early._on_frame(ReadStatus())
    assert serving.cancelled()


def test_a_build_id_depends_on_the_names_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = build_id()
    monkeypatch.setattr("router.serve.fleet.ipc.list_settings", lambda settings: ())
    assert build_id() != ours
