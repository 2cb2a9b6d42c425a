"""Faults of one server, chosen by what it leads or follows: killed, paused, its store gone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.rigs.faults.cluster.groups import Group
from tests.rigs.faults.cluster.servers import SIZE
from tests.rigs.faults.cluster.stage import ClusterStage
from tests.rigs.faults.kinds import Act, FaultScope

Choose = Callable[[FaultScope], Awaitable[int]]


def stage_of(scope: FaultScope) -> ClusterStage:
    assert isinstance(scope.stage, ClusterStage), "these faults need a cluster"
    return scope.stage


def leader_of(group: Group) -> Choose:
    async def choose(scope: FaultScope) -> int:
        return await stage_of(scope).find_leader(group)

    return choose


def follower_of(group: Group) -> Choose:
    """It leads other groups: with so many of them every server leads some."""

    async def choose(scope: FaultScope) -> int:
        leader = await stage_of(scope).find_leader(group)
        return scope.dice.choice([number for number in range(SIZE) if number != leader])

    return choose


def killed(choose: Choose) -> Act:
    async def act(scope: FaultScope) -> None:
        async with without(stage_of(scope), await choose(scope)):
            await asyncio.sleep(scope.hold_s)

    return act


def paused(choose: Choose) -> Act:
    """SIGSTOP, and SIGCONT: it wakes up as the leader that it was."""

    async def act(scope: FaultScope) -> None:
        servers, number = stage_of(scope).servers, await choose(scope)
        servers.broken.add(number)
        servers.brokers[number].pause()
        try:
            await asyncio.sleep(scope.hold_s)
        finally:
            servers.brokers[number].unpause()

    return act


def wiped(choose: Choose) -> Act:
    """A server comes back with a new disk. It must get everything from the others."""

    async def act(scope: FaultScope) -> None:
        stage, number = stage_of(scope), await choose(scope)
        async with without(stage, number):
            stage.servers.brokers[number].wipe()
            await asyncio.sleep(scope.hold_s)

    return act


@asynccontextmanager
async def without(stage: ClusterStage, *numbers: int) -> AsyncIterator[None]:
    """These servers are killed, and started again in the end."""
    stage.servers.kill(numbers)
    try:
        yield
    finally:
        await stage.servers.start_again(numbers)
