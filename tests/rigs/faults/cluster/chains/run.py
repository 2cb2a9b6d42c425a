"""One run of chains on a cluster: the processes, the loads, the faults, the ledgers."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import chain as joined

from msgspec import Struct

from tests.rigs.faults.cluster.chains.agents import AgentChain
from tests.rigs.faults.cluster.chains.bus import BusChain
from tests.rigs.faults.cluster.chains.chain import Chain, ChainLoad, Effect
from tests.rigs.faults.cluster.chains.kinds import FROM_END, KINDS
from tests.rigs.faults.cluster.chains.lake import LakeChain
from tests.rigs.faults.cluster.chains.mailbox import MailboxChain
from tests.rigs.faults.cluster.chains.measure import ChainCost, ChainObserved, measure
from tests.rigs.faults.cluster.chains.stage import ChainStage
from tests.rigs.faults.injector import CALM_S, Happened, Plan, inject
from tests.rigs.faults.kinds import Kind
from tests.rigs.faults.ledger import Row
from tests.rigs.faults.stage import Cast, on_stage

CHAINS: Mapping[str, Callable[[], Chain]] = {
    "mailbox": MailboxChain,
    "agents": AgentChain,
    "bus": BusChain,
    "lake": LakeChain,
}
USUAL = ("mailbox", "agents", "bus")  # the lake's JVM takes a core of its own
CAST = Cast(routers=0, workers=0, extensions=0, replicas=3)
LONGEST_RECOVERY_S = 60.0
ALL_DONE_S = 120.0
LOOK_EVERY_S = 0.5
ALWAYS = 1.0  # every fault waits until the last one is over


class ChainRun(Struct, frozen=True):
    """What a run is to be. `rate`: messages a second of each chain."""

    chains: tuple[str, ...] = USUAL
    rounds: int = 1
    seed: int = 7
    rate: float = 10.0
    kinds: tuple[Kind, ...] = KINDS
    calm_s: tuple[float, float] = CALM_S


class ChainReport(Struct, frozen=True):
    """`rows`: the ledgers; each is called by its chain and the effect. `is_quiet`: every message
    had its last effect in the end.
    """

    machine: dict[str, str]
    seed: int
    rate: float
    is_quiet: bool
    costs: list[ChainCost]
    rows: list[Row]
    deaths: dict[str, int]

    @property
    def is_clean(self) -> bool:
        return (
            self.is_quiet
            and all(row.is_clean for row in self.rows)
            and not any(cost.stuck for cost in self.costs)
        )


async def run(plan: ChainRun, machine: dict[str, str]) -> ChainReport:
    """From the first process to the ledgers."""
    chains = [CHAINS[name]() for name in plan.chains]
    async with AsyncExitStack() as stack:
        for one in chains:
            stack.push_async_callback(one.close)  # after the stage
        stage = await stack.enter_async_context(on_stage(CAST, partial(ChainStage, chains=chains)))
        loads = [ChainLoad(one, plan.rate) for one in chains]
        for load in loads:
            stack.push_async_callback(load.close)
            load.begin()
        stage.loads = loads
        happened = await _inject(stage, plan)
        is_quiet = await _come_to_rest(loads)
        return await _report(plan, machine, happened, stage, is_quiet=is_quiet)


async def _inject(stage: ChainStage, plan: ChainRun) -> list[Happened]:
    faults = Plan(plan.seed, plan.kinds, plan.calm_s, ALWAYS)

    def tell(fault: Happened) -> None:
        counts = ", ".join(f"{load.chain.name} {len(load.offered)}" for load in stage.loads)
        print(
            f"{fault.kind} for {fault.ended - fault.began:.1f} s: {counts}",
            file=sys.stderr,
            flush=True,
        )

    happened = await inject(
        stage, stage.clients.current, faults, times=plan.rounds * len(plan.kinds), told=tell
    )
    await stage.all_ready(LONGEST_RECOVERY_S)
    return happened


async def _come_to_rest(loads: Sequence[ChainLoad]) -> bool:
    """Whether every message is stored and has its last effect in time."""
    for load in loads:
        load.end()
    deadline = time.monotonic() + ALL_DONE_S
    while not all([load.is_stored and not await load.is_behind(0.0) for load in loads]):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(LOOK_EVERY_S)
    return True


async def _report(
    plan: ChainRun,
    machine: dict[str, str],
    happened: list[Happened],
    stage: ChainStage,
    *,
    is_quiet: bool,
) -> ChainReport:
    costs, rows = [], []
    for load in stage.loads:
        effects = await load.chain.read()
        kept = [
            make_row(f"{load.chain.name}: {name}", load.offered, found)
            for name, found in effects.items()
        ]
        last = list(effects.values())[-1]
        costs += measure(
            ChainObserved(load.chain.name, happened, load.offered, last, kept, FROM_END)
        )
        rows += kept
    deaths = {child.name: child.deaths for child in stage.children}
    return ChainReport(machine, plan.seed, plan.rate, is_quiet, costs, rows, deaths)


def make_row(name: str, sent: Mapping[str, float], found: Sequence[Effect]) -> Row:
    """Every message that was stored has each effect once."""
    there, expected = Counter(effect.of for effect in found), set(sent)
    double = tuple(
        joined.from_iterable([one] * (times - 1) for one, times in there.items() if times > 1)
    )
    return Row(
        name,
        len(expected),
        len(found),
        tuple(sorted(expected - set(there))),
        double,
        tuple(sorted(set(there) - expected)),
    )
