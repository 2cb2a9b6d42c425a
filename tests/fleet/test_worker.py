"""Inside a worker's process: whose settings it takes, and how often it may be told to end."""

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
from router.fleet import worker
from router.fleet.build import build
from router.fleet.line import Ask, Begin, FromWorker, Line, Refused, Started
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
    monkeypatch.setattr(worker, "RouterService", SlowService)
    monkeypatch.setattr(worker, "configure", lambda *_, **__: None)
    return SlowService


@contextlib.asynccontextmanager
async def a_parent(heard: list[FromWorker]) -> AsyncIterator[tuple[Line[FromWorker], "asyncio.Task[int]"]]:
    """Its end of the line, and the life of the worker at the other one."""
    ours, theirs = socket.socketpair()
    life = asyncio.create_task(worker._lived(theirs))
    line = Line(msgspec.msgpack.Decoder(FromWorker), heard.append, lambda: None)
    await line.open(ours)
    try:
        yield line, life
    finally:
        await line.hang_up()
        await asyncio.wait({life})


def a_begin(whose: str) -> Begin:
    return Begin(pickle.dumps(Settings()), whose)


async def test_told_again_and_again_it_drains_to_the_end(service: type[SlowService]) -> None:
    heard: list[FromWorker] = []
    async with a_parent(heard) as (line, life):
        line.say(a_begin(build()))
        await until(lambda: Started("nats://there") in heard)
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: service.drains)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait({life}, timeout=0.05)
        await line.hang_up()
        await asyncio.wait({life}, timeout=0.05)
        assert not life.done()
        service.may_end.set()
        assert await life == worker.OK
    assert service.drained


async def test_settings_of_another_build_are_refused_before_they_are_looked_at() -> None:
    heard: list[FromWorker] = []
    async with a_parent(heard) as (line, life):
        line.say(Begin(b"no pickle", "0.0.9+of an older parent"))
        assert await life == worker.FAILED
        await until(lambda: heard)
    assert heard == [Refused("", "the code has changed since this parent was started: restart it")]


async def test_what_a_parent_says_to_a_worker_that_was_told_to_end_first_is_no_error() -> None:
    early = worker._Worker(lambda: None)
    serving = asyncio.create_task(early.serve())
    await asyncio.sleep(0)
    serving.cancel()
    await asyncio.wait({serving})
    early._hear(a_begin(build()))
    early._hear(Ask())
    assert serving.cancelled()


def test_a_build_is_told_by_the_names_of_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = build()
    monkeypatch.setattr("router.fleet.build.leaves", lambda settings: ())
    assert build() != ours
