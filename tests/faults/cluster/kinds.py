"""The kinds of faults of a cluster, by name."""

from typing import NamedTuple

from tests.faults.cluster.groups import list_groups
from tests.faults.cluster.leaders import killed, leader_of, paused
from tests.faults.kinds import Act, Kind

LEAST_S, MOST_S = 8.0, 12.0  # longer than an election, so that what works without the server is seen


class Section(NamedTuple):
    """Kinds that are measured alike. `from_end`: how long until all is well counts from the fault's end, since nothing works before."""

    kinds: tuple[Kind, ...]
    from_end: bool = False


def _lasting(name: str, act: Act) -> Kind:
    return Kind(name, act, LEAST_S, MOST_S)


LEADERS = Section(
    tuple(
        _lasting(f"leader of {group.name} {how}", act(leader_of(group)))
        for group in list_groups()
        for how, act in (("killed", killed), ("paused", paused))
    )
)
SECTIONS = (LEADERS,)
KINDS = tuple(kind for section in SECTIONS for kind in section.kinds)
FROM_END = frozenset(kind.name for section in SECTIONS if section.from_end for kind in section.kinds)
