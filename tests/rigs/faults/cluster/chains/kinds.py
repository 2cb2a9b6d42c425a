"""The faults that chains meet: of the server that leads a group of theirs, drawn by the plan, and
of all servers.
"""

from __future__ import annotations

from tests.rigs.faults.cluster.cuts import cut_off_from, partitioned, split_off
from tests.rigs.faults.cluster.leaders import killed, paused, stage_of
from tests.rigs.faults.cluster.processes import killed_with
from tests.rigs.faults.cluster.routes import Routes
from tests.rigs.faults.cluster.storms import (
    all_killed,
    lame_duck,
    no_quorum,
    rolling_restart,
    stepping_down,
)
from tests.rigs.faults.kinds import FaultScope, Kind

LEAST_S, MOST_S = 8.0, 12.0
CUT_S = (15.0, 20.0)


async def leader_of_any(scope: FaultScope) -> int:
    """The server that leads one of the groups."""
    stage = stage_of(scope)
    return await stage.find_leader(scope.dice.choice(stage.groups))


async def step_downs(scope: FaultScope) -> None:
    """Every leader gives its place away, each second."""
    await stepping_down(stage_of(scope).groups)(scope)


KINDS = (
    Kind("leader killed", killed(leader_of_any), LEAST_S, MOST_S),
    Kind("leader paused", paused(leader_of_any), LEAST_S, MOST_S),
    Kind(
        "leader and all processes killed",
        killed_with(leader_of_any, lambda stage: stage.children),
        LEAST_S,
        MOST_S,
    ),
    Kind("leader partitioned from its peers", partitioned(leader_of_any, Routes.isolate), *CUT_S),
    Kind("leader split off from peers and processes", split_off(leader_of_any), *CUT_S),
    Kind("leader cut off from the processes", cut_off_from(leader_of_any), *CUT_S),
    Kind("no quorum, 20 s", no_quorum, 20.0, 20.0),
    Kind("all servers killed", all_killed, 1.0, 3.0),
    Kind("step-downs of every group", step_downs, LEAST_S, MOST_S),
    Kind("rolling restart", rolling_restart, 0.0, 0.0),
    Kind("lame duck mode, one after the other", lame_duck, 0.0, 0.0),
)
FROM_END = frozenset(kind.name for kind in KINDS[6:])
