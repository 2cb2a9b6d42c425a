"""What each fault cost each chain: lost, double, stuck, the longest wait for the last effect, and
how long until all was well.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from tests.rigs.faults.cluster.chains.chain import Effect
from tests.rigs.faults.cluster.recovery import Turn, Wait, measure_well
from tests.rigs.faults.injector import Happened
from tests.rigs.faults.ledger import Row

DONE_WITHIN_S = 2.0
STUCK_AFTER_S = 30.0  # after the end of the fault


class ChainCost(Struct, frozen=True):
    """Of one fault, for one chain. Times are seconds; None: never."""

    chain: str
    kind: str
    sent: int
    lost: int
    double: int
    stuck: int
    longest_s: float | None
    well_s: float | None
    mended_s: float | None


class ChainObserved(Struct, frozen=True):
    """What a run knows of one chain in its end. `offered`: when each message was first sent;
    `last`: its last effects.
    """

    chain: str
    happened: Sequence[Happened]
    offered: Mapping[str, float]
    last: Sequence[Effect]
    rows: Sequence[Row]
    from_end: frozenset[str]


def measure(observed: ChainObserved) -> list[ChainCost]:
    """A message counts with the fault that had begun last when it was offered."""
    steady = time.monotonic() - time.time()
    # the first one counts
    done = {effect.of: effect.at + steady for effect in reversed(observed.last)}
    return [
        _measure_one(observed, Turn(observed.happened, number), done)
        for number in range(len(observed.happened))
    ]


def _measure_one(observed: ChainObserved, turn: Turn, done: Mapping[str, float]) -> ChainCost:
    fault = turn.fault
    sent = {name: at for name, at in observed.offered.items() if turn.has(at)}
    ends = {name: done.get(name, math.inf) for name in observed.offered}
    every = (Wait(at, ends[name], ends[name]) for name, at in observed.offered.items())
    waits = [wait for wait in every if turn.has_wait(wait)]
    longest = max((wait.end - wait.begin for wait in waits), default=0.0)
    since, until = (
        (fault.ended, math.inf) if fault.kind in observed.from_end else (fault.began, fault.ended)
    )
    return ChainCost(
        chain=observed.chain,
        kind=fault.kind,
        sent=len(sent),
        lost=sum(name in sent for row in observed.rows for name in row.lost),
        double=sum(name in sent for row in observed.rows for name in row.double),
        stuck=sum(wait.end - max(fault.ended, wait.begin) > STUCK_AFTER_S for wait in waits),
        longest_s=longest if longest < math.inf else None,
        well_s=measure_well(waits, DONE_WITHIN_S, since, until),
        mended_s=measure_well(waits, DONE_WITHIN_S, fault.ended),
    )
