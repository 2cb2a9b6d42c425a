"""One run on a cluster: the processes, the load, the faults, the ledger, and what each fault cost."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from msgspec import Struct

from tests.rigs.faults.cluster.acks import AckWatch, read_assignment_id
from tests.rigs.faults.cluster.held_up import Steps, find_held_up
from tests.rigs.faults.cluster.kinds import FROM_END, KINDS
from tests.rigs.faults.cluster.lateness import measure_lateness
from tests.rigs.faults.cluster.recovery import Observed, measure
from tests.rigs.faults.cluster.report import ClusterReport
from tests.rigs.faults.cluster.stage import ClusterStage
from tests.rigs.faults.gathered import gathered
from tests.rigs.faults.injector import CALM_S, Happened, Plan, inject
from tests.rigs.faults.kinds import Kind
from tests.rigs.faults.ledger import Facts, balanced
from tests.rigs.faults.life import first_interrupt
from tests.rigs.faults.load import Load, Mix
from tests.rigs.faults.quiet import ALL_QUIET_S, quiesce
from tests.rigs.faults.stage import Cast, on_stage
from tests.rigs.faults.standing import standing

CAST = Cast(processes=2, replicas=3)
MIX = Mix(single=0.2)
LONGEST_RECOVERY_S = 60.0
# every fault waits until the last one is over: two broken servers of three are another kind
ALWAYS = 1.0


class ClusterRun(Struct, frozen=True):
    """What a run is to be."""

    rounds: int = 3
    seed: int = 7
    rate: float = 100.0
    kinds: tuple[Kind, ...] = KINDS
    cast: Cast = CAST
    policy: str | None = None  # the default one calls extensions
    calm_s: tuple[float, float] = CALM_S
    logs: Path | None = None  # where the processes' logs are kept

    @property
    def faults(self) -> int:
        return self.rounds * len(self.kinds)


async def run(plan: ClusterRun, machine: dict[str, str]) -> ClusterReport:
    """From the first process to the ledger."""
    async with on_stage(plan.cast, ClusterStage) as stage, measure_lateness() as lateness:
        load = Load(
            stage.clients,
            stage.settings,
            rate=plan.rate,
            seed=plan.seed,
            mix=MIX,
            policy=plan.policy,
        )
        watch = AckWatch(stage.settings)
        try:
            await watch.start(stage.clients)
            await load.begin()
            stage.load = load
            happened = await _inject(stage, load, plan)
            is_quiet = await _come_to_rest(stage, load)
            observed = await _observe(stage, load, happened)
            losses = await watch.explain(stage.clients.current, observed.ledger, load.asked)
            held_up = find_held_up(happened, load.asked.values(), await _read_steps(stage, watch))
        finally:
            await load.close()
            if plan.logs is not None:
                _keep_logs(stage, plan.logs)
    deaths = {child.name: child.deaths for child in stage.children}
    return ClusterReport(
        machine=machine,
        seed=plan.seed,
        rate=plan.rate,
        copies=plan.cast.replicas,
        is_quiet=is_quiet,
        costs=measure(observed),
        from_end=sorted(FROM_END),
        balance=observed.ledger,
        deaths=deaths,
        losses=losses,
        held_up=held_up,
        late_s=lateness.seconds,
    )


def _keep_logs(stage: ClusterStage, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for log in stage.home.glob("*.log"):
        shutil.copy(log, directory)


async def _inject(stage: ClusterStage, load: Load, plan: ClusterRun) -> list[Happened]:
    faults = Plan(plan.seed, plan.kinds, plan.calm_s, ALWAYS)
    progress = _Progress(load, plan.faults)
    with first_interrupt(
        "no more faults: the ledger of those that were follows; Ctrl-C again ends at once"
    ) as is_stopped:
        happened = await inject(
            stage,
            stage.clients.current,
            faults,
            times=plan.faults,
            told=progress,
            is_stopped=is_stopped,
        )
    await stage.all_ready(LONGEST_RECOVERY_S)
    return happened


async def _come_to_rest(stage: ClusterStage, load: Load) -> bool:
    load.end_asking()
    print("all faults are over; waiting for the last requests", file=sys.stderr, flush=True)
    return await quiesce(stage, stage.clients.current, load, within_s=ALL_QUIET_S)


async def _observe(stage: ClusterStage, load: Load, happened: list[Happened]) -> Observed:
    facts: Facts = await gathered(stage.clients.current, stage, load)
    metered_at = await _read_stored(stage, stage.settings.streams.usage.name)
    return Observed(
        happened,
        load.asked,
        facts.stored_singles,
        metered_at,
        stage.elections.each,
        balanced(facts),
        FROM_END,
    )


async def _read_steps(stage: ClusterStage, watch: AckWatch) -> Steps:
    streams = stage.settings.streams
    return Steps(
        assigned=await _read_stored(stage, streams.assignments.name),
        results=await _read_stored(stage, streams.results.name),
        usage=await _read_stored(stage, streams.usage.name),
        results_published=watch.list_published("results"),
        usage_published=watch.list_published("metered"),
    )


async def _read_stored(stage: ClusterStage, stream: str) -> dict[str, float]:
    """When the message of each assignment was stored, by the suite's steady clock: servers and
    suite share one wall clock.
    """
    steady = time.monotonic() - time.time()
    stored = (
        (message, read_assignment_id(message.data))
        for message in await standing(stage.clients.current, stream)
    )
    return {key: message.stored_at + steady for message, key in stored if key is not None}


class _Progress:
    """A line for each fault."""

    def __init__(self, load: Load, faults: int) -> None:
        self._load = load
        self._faults = faults
        self._done = 0
        self._began = time.monotonic()

    def __call__(self, fault: Happened) -> None:
        self._done += 1
        load, clock = self._load, time.monotonic() - self._began
        counts = f"asked {len(load.asked)}, waiting {len(load.waiting)}"
        lasted = f"{fault.kind} for {fault.ended - fault.began:.1f} s"
        print(
            f"[{clock:4.0f} s, {self._done}/{self._faults}] {lasted:60} {counts}",
            file=sys.stderr,
            flush=True,
        )
