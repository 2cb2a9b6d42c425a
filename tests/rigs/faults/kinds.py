"""What can go wrong, each from its beginning to its end: after it, all is as it was, but for what
broke.
"""

import asyncio
from argparse import ArgumentTypeError
from collections.abc import Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatch
from random import Random
from typing import NamedTuple, TypeVar

from nats.aio.client import Client

from tests.rigs.faults.child import Child
from tests.rigs.faults.stage import WRITE_DEADLINE_S, Stage
from tests.support.full_stores import full_store, full_stream
from tests.support.proxy import BOTH, FROM_SERVER, TO_SERVER, Proxy

T = TypeVar("T")

SKEWS_S = (300.0, -300.0)
SLOW_S = 0.2
HEARTBEATS = "caf.worker.heartbeat.v1"  # what every router hears, so it can be shouted at there
SHOUT = b"x" * 1_000_000
PATIENCE_S = 30.0
DROPPED = "Slow Consumer Detected"


class FaultScope(NamedTuple):
    """What a fault may touch. `client` is the suite's own way to the server."""

    stage: Stage
    client: Client
    dice: Random
    hold_s: float

    @property
    def network(self) -> list[Proxy]:
        return list(self.stage.proxies.values())


Act = Callable[[FaultScope], Awaitable[None]]


class Kind(NamedTuple):
    """One fault: what it does, and how long it may last, seconds."""

    name: str
    act: Act
    least_s: float
    most_s: float


def match_kinds(kinds: Iterable[Kind], pattern: str) -> list[Kind]:
    """Of a command's option: those whose names match, one at least."""
    matched = [kind for kind in kinds if fnmatch(kind.name, pattern)]
    if not matched:
        raise ArgumentTypeError(f"no kind is called so: {pattern}; --list prints all of them")
    return matched


async def hold(scope: FaultScope, mend: Callable[[], None]) -> None:
    """It lasts, and is mended even when the run is cut off."""
    try:
        # the length of a fault is what the run varies: there is no condition to wait for
        await asyncio.sleep(scope.hold_s)
    finally:
        mend()


async def server_killed(scope: FaultScope) -> None:
    broker = scope.stage.broker
    broker.kill()
    try:
        await asyncio.sleep(scope.hold_s)
    finally:
        await asyncio.to_thread(broker.start)


async def server_paused(scope: FaultScope) -> None:
    scope.stage.broker.pause()
    await hold(scope, scope.stage.broker.unpause)


def killed(of: Callable[[Stage], Sequence[Child]]) -> Act:
    """SIGKILL; after the hold a supervisor has noticed, and they are started again."""

    async def act(scope: FaultScope) -> None:
        children = of(scope.stage)
        _each(children, Child.kill)
        await hold(scope, lambda: _each(children, Child.spawn))

    return act


def paused(of: Callable[[Stage], Sequence[Child]]) -> Act:
    """SIGSTOP, and SIGCONT: what it held was given to others meanwhile, and it does not know."""

    async def act(scope: FaultScope) -> None:
        children = of(scope.stage)
        _each(children, Child.pause)
        await hold(scope, lambda: _each(children, Child.resume))

    return act


async def clocks_off(scope: FaultScope) -> None:
    """One router five minutes ahead, the other five behind, or the other way round; and the
    workers.
    """
    stage = scope.stage
    children_of_all = [*stage.routers, *stage.workers]
    for child in children_of_all:
        await child.ready()  # until then the signal would end it
    for children in (stage.routers, stage.workers):
        for child, seconds in zip(children, scope.dice.sample(SKEWS_S, 2), strict=False):
            child.step_clock(seconds)
    await hold(scope, lambda: _each(children_of_all, lambda child: child.step_clock(0.0)))


async def network_cut(scope: FaultScope) -> None:
    _each(scope.network, Proxy.cut)
    await hold(scope, lambda: _each(scope.network, Proxy.mend))


async def network_silent(scope: FaultScope) -> None:
    """Half open, one way or both, for all of ours; then what was held back arrives after all, or
    the connections are reset.
    """
    ways = scope.dice.choice((BOTH, (TO_SERVER,), (FROM_SERVER,)))
    is_forgotten = scope.dice.random() < 0.5
    _each(scope.network, lambda proxy: proxy.silence(*ways))

    def mend() -> None:
        if is_forgotten:
            _each(scope.network, Proxy.reset)
        _each(scope.network, Proxy.mend)

    await hold(scope, mend)


async def network_slow(scope: FaultScope) -> None:
    _each(scope.network, lambda proxy: proxy.slow(SLOW_S))
    await hold(scope, lambda: _each(scope.network, Proxy.mend))


async def network_torn(scope: FaultScope) -> None:
    """Every connection ends in the middle of what the server says, several times over."""
    deadline = asyncio.get_running_loop().time() + scope.hold_s
    try:
        while asyncio.get_running_loop().time() < deadline:
            _each(scope.network, Proxy.tear)
            await asyncio.sleep(0.5)
    finally:
        _each(scope.network, Proxy.mend)


async def slow_consumer(scope: FaultScope) -> None:
    """A router does not read, and is shouted at, until the server drops it. RuntimeError when it
    never does: then this is no fault.
    """
    broker, router = scope.stage.broker, scope.dice.choice(scope.stage.routers)
    await router.ready()
    (proxy,) = scope.stage.proxies_of([router])
    before, deadline = broker.logged(DROPPED), asyncio.get_running_loop().time() + PATIENCE_S
    proxy.silence(FROM_SERVER)
    try:
        while broker.logged(DROPPED) == before:  # buffers on the way hold some megabytes
            if asyncio.get_running_loop().time() > deadline:
                raise RuntimeError(
                    f"the server did not drop {router.name}, which does not read, within "
                    f"{PATIENCE_S} s"
                )
            for _ in range(6):
                await scope.client.publish(HEARTBEATS, SHOUT)
            await scope.client.flush()
            await asyncio.sleep(WRITE_DEADLINE_S / 4)
        await asyncio.sleep(scope.hold_s)
    finally:
        proxy.mend()


async def store_full(scope: FaultScope) -> None:
    async with full_store(scope.client):
        await asyncio.sleep(scope.hold_s)


async def stream_full(scope: FaultScope) -> None:
    streams = scope.stage.settings.streams
    name = scope.dice.choice((streams.usage, streams.assignments, streams.dlq)).name
    async with full_stream(scope.client, name):
        await asyncio.sleep(scope.hold_s)


def _each(those: Iterable[T], act: Callable[[T], None]) -> None:
    for one in those:
        act(one)


def _first_router(stage: Stage) -> Sequence[Child]:
    return stage.routers[:1]


def _routers(stage: Stage) -> Sequence[Child]:
    return stage.routers


def _first_worker(stage: Stage) -> Sequence[Child]:
    return stage.workers[:1]


def _workers(stage: Stage) -> Sequence[Child]:
    return stage.workers


def _extensions(stage: Stage) -> Sequence[Child]:
    return stage.extensions


KINDS = (
    Kind("server killed", server_killed, 0.2, 3.0),
    Kind("server paused", server_paused, 1.0, 8.0),
    Kind("a router killed", killed(_first_router), 0.2, 1.0),
    Kind("both routers killed", killed(_routers), 0.2, 1.0),
    Kind("a router paused", paused(_first_router), 1.0, 8.0),
    Kind("both routers paused", paused(_routers), 1.0, 8.0),
    Kind("a worker killed", killed(_first_worker), 0.2, 1.0),
    Kind("both workers paused", paused(_workers), 1.0, 8.0),
    Kind("extension killed", killed(_extensions), 0.2, 3.0),
    Kind("extension paused", paused(_extensions), 1.0, 8.0),
    Kind("store full", store_full, 1.0, 5.0),
    Kind("a stream full", stream_full, 1.0, 5.0),
    Kind("network cut", network_cut, 0.2, 5.0),
    Kind("network half open", network_silent, 1.0, 8.0),
    Kind("network slow, 200 ms", network_slow, 2.0, 5.0),
    Kind("network torn, mid-frame", network_torn, 0.5, 2.0),
    Kind("slow consumer", slow_consumer, 0.5, 3.0),
    Kind("clocks off, 5 min", clocks_off, 2.0, 5.0),
)
