"""The kinds of faults of a cluster, by name."""

from typing import NamedTuple

from tests.rigs.faults.cluster.cuts import cut_off_from, partitioned, split_off
from tests.rigs.faults.cluster.groups import META, Group, list_groups
from tests.rigs.faults.cluster.leaders import follower_of, killed, leader_of, paused, wiped
from tests.rigs.faults.cluster.processes import killed_with
from tests.rigs.faults.cluster.routes import Routes
from tests.rigs.faults.cluster.storms import (
    all_killed,
    lame_duck,
    no_quorum,
    rolling_restart,
    stepping_down,
)
from tests.rigs.faults.kinds import Act, Kind

# longer than an election, so that what works without the server is seen
LEAST_S, MOST_S = 8.0, 12.0
CUT_S = (15.0, 20.0)
STORM_S = (8.0, 12.0)


class Section(NamedTuple):
    """Kinds that are measured alike. `from_end`: how long until all is well counts from the fault's
    end, since nothing works before.
    """

    kinds: tuple[Kind, ...]
    from_end: bool = False


def _lasting(name: str, act: Act) -> Kind:
    return Kind(name, act, LEAST_S, MOST_S)


REQUESTS, ASSIGNMENTS, USAGE = (
    Group(name) for name in ("ROUTER_DECIDE", "ROUTER_ASSIGNMENTS", "ROUTER_USAGE")
)
STREAMS = tuple(group for group in list_groups() if group.stream != META and not group.consumer)
DURABLES = tuple(group for group in list_groups() if group.consumer)
CLUSTER = Group(META)

LEADERS = Section(
    tuple(
        _lasting(f"leader of {group.name} {how}", act(leader_of(group)))
        for group in list_groups()
        for how, act in (("killed", killed), ("paused", paused))
    )
)
FOLLOWERS = Section(
    (
        _lasting("follower killed", killed(follower_of(REQUESTS))),
        _lasting("follower paused", paused(follower_of(REQUESTS))),
        _lasting("follower comes back with an empty disk", wiped(follower_of(USAGE))),
        _lasting("leader comes back with an empty disk", wiped(leader_of(USAGE))),
    )
)
NETWORK = Section(
    (
        Kind(
            "leader partitioned from its peers",
            partitioned(leader_of(REQUESTS), Routes.isolate),
            *CUT_S,
        ),
        Kind(
            "leader not heard by its peers", partitioned(leader_of(REQUESTS), Routes.mute), *CUT_S
        ),
        Kind(
            "leader does not hear its peers",
            partitioned(leader_of(REQUESTS), Routes.deafen),
            *CUT_S,
        ),
        Kind("leader split off from peers and processes", split_off(leader_of(REQUESTS)), *CUT_S),
        Kind("leader cut off from the processes", cut_off_from(leader_of(REQUESTS)), *CUT_S),
    )
)
MEANWHILE = Section(
    (
        _lasting(
            "leader and the router killed",
            killed_with(leader_of(REQUESTS), lambda stage: stage.routers[:1]),
        ),
        _lasting(
            "leader and the fleet killed",
            killed_with(leader_of(REQUESTS), lambda stage: stage.routers[1:]),
        ),
        _lasting(
            "leader and a worker killed",
            killed_with(leader_of(ASSIGNMENTS), lambda stage: stage.workers[:1]),
        ),
    )
)
# Nothing works before their end, or they break one thing after the other.
WHOLE = Section(
    (
        Kind("no quorum, 20 s", no_quorum, 20.0, 20.0),
        Kind("all servers killed", all_killed, 1.0, 3.0),
        Kind("step-downs of every stream and bucket", stepping_down(STREAMS), *STORM_S),
        Kind("step-downs of every durable", stepping_down(DURABLES), *STORM_S),
        Kind("step-downs of the cluster's leader", stepping_down([CLUSTER]), *STORM_S),
        Kind("rolling restart", rolling_restart, 0.0, 0.0),
        Kind("lame duck mode, one after the other", lame_duck, 0.0, 0.0),
    ),
    from_end=True,
)
SECTIONS = (LEADERS, FOLLOWERS, NETWORK, MEANWHILE, WHOLE)
KINDS = tuple(kind for section in SECTIONS for kind in section.kinds)
FROM_END = frozenset(
    kind.name for section in SECTIONS if section.from_end for kind in section.kinds
)
