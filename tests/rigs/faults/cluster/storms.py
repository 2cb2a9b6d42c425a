"""Faults of many servers or many leaders: step-downs, no quorum, restarts one after the other."""

import asyncio
from collections.abc import Iterable

from tests.rigs.faults.cluster.groups import Group, step_down
from tests.rigs.faults.cluster.leaders import stage_of, without
from tests.rigs.faults.cluster.servers import SIZE
from tests.rigs.faults.cluster.stage import ClusterStage
from tests.rigs.faults.kinds import Act, FaultScope

STEP_DOWN_EVERY_S = 1.0
RESTART_WITHIN_S = 60.0


def stepping_down(groups: Iterable[Group]) -> Act:
    """Every leader of these gives its place away, each second."""
    each = tuple(groups)

    async def act(scope: FaultScope) -> None:
        stage = stage_of(scope)
        deadline = asyncio.get_running_loop().time() + scope.hold_s
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.gather(
                *(step_down(stage.clients.current, stage.servers, group) for group in each)
            )
            await asyncio.sleep(STEP_DOWN_EVERY_S)

    return act


async def no_quorum(scope: FaultScope) -> None:
    """Two of three servers are killed, and come back."""
    async with without(stage_of(scope), *scope.dice.sample(range(SIZE), 2)):
        await asyncio.sleep(scope.hold_s)


async def all_killed(scope: FaultScope) -> None:
    """A power cut."""
    async with without(stage_of(scope), *range(SIZE)):
        await asyncio.sleep(scope.hold_s)


async def rolling_restart(scope: FaultScope) -> None:
    """Each server is stopped by SIGTERM and started, the next one as soon as all copies are
    current.
    """
    await _one_by_one(scope, is_gentle=False)


async def lame_duck(scope: FaultScope) -> None:
    """The same with lame duck mode: a server gives its leaders away and sends its clients away
    before it ends.
    """
    await _one_by_one(scope, is_gentle=True)


async def _one_by_one(scope: FaultScope, *, is_gentle: bool) -> None:
    stage = stage_of(scope)
    for number in scope.dice.sample(range(SIZE), SIZE):
        await _restart(stage, number, is_gentle=is_gentle)
        await stage.copies_current(RESTART_WITHIN_S)


async def _restart(stage: ClusterStage, number: int, *, is_gentle: bool) -> None:
    broker = stage.servers.brokers[number]
    stage.servers.broken.add(number)
    try:
        await asyncio.to_thread(broker.retire if is_gentle else broker.stop)
    finally:
        await stage.servers.start_again([number])
