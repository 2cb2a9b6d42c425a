"""A fault of a server and a process of ours at once: what starts meets a cluster that elects."""

import asyncio
from collections.abc import Callable, Sequence

from tests.rigs.faults.child import Child
from tests.rigs.faults.cluster.leaders import Choose, stage_of, without
from tests.rigs.faults.kinds import Act, FaultScope
from tests.rigs.faults.stage import Stage

START_AGAIN_S = 1.0  # a supervisor has noticed


def killed_with(choose: Choose, children_of: Callable[[Stage], Sequence[Child]]) -> Act:
    """The server and these processes are killed at one moment; the processes start again at once,
    the server in the end.
    """

    async def act(scope: FaultScope) -> None:
        stage = stage_of(scope)
        async with without(stage, await choose(scope)):
            children = children_of(stage)
            for child in children:
                child.kill()
            try:
                await asyncio.sleep(START_AGAIN_S)
            finally:
                for child in children:
                    child.spawn()
            await asyncio.sleep(max(0.0, scope.hold_s - START_AGAIN_S))

    return act
