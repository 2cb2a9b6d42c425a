"""One row: load, cut, restart, again and again; then the ledger."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial

from msgspec import Struct

from tests.rigs.faults.gathered import gathered
from tests.rigs.faults.ledger import Ledger, balanced
from tests.rigs.faults.load import Asked, Load
from tests.rigs.faults.quiet import quiesce
from tests.rigs.faults.stage import on_stage
from tests.rigs.powercut.rows import MATTERS, Row
from tests.rigs.powercut.stage import PowerStage, cast_of
from tests.support.waiting import until

AWAY_S = 1.0  # a machine is longer away; what counts is what its disk holds
QUIET_WITHIN_S = 60.0
# a slow machine is not asked twice for what it has in hand
PATIENCE_S = 10.0
WELL_AGAIN_WITHIN_S = 10.0
Tell = Callable[[str], None]


class Outcome(Struct, frozen=True):
    """`reaches_s`: how long before its cut the oldest request was answered of which something is
    lost; 0 if nothing is.
    """

    row: Row
    asked: int
    is_quiet: bool
    ledger: Ledger
    reaches_s: float

    @property
    def lost(self) -> int:
        """Requests of which something is lost, whichever stage it is missing at."""
        return len(_list_lost(self.ledger))

    @property
    def double(self) -> int:
        return len(self.ledger.double)

    @property
    def is_as_expected(self) -> bool:
        if self.row.must_lose is None:
            return True
        if self.row.must_lose:
            return self.lost > 0
        return self.is_quiet and self.ledger.is_clean


async def run(row: Row, in_flight: int, seed: int, tell: Tell) -> Outcome:
    """`in_flight`: requests without an answer at once, so the load is as much as the machine does."""
    async with on_stage(cast_of(row), partial(PowerStage, row)) as stage:
        load = Load(
            stage.clients,
            stage.settings,
            rate=0.0,
            seed=seed,
            policy="plain",
            in_flight=in_flight,
            patience_s=PATIENCE_S,
        )
        try:
            await load.begin()
            cuts = [await _cut(stage, load, turn, tell) for turn in range(row.cuts)]
            # what a cut took back shows in what comes after it
            await asyncio.sleep(AWAY_S)
            load.end_asking()
            client = stage.clients.current
            is_quiet = await quiesce(stage, client, load, within_s=QUIET_WITHIN_S)
            ledger = balanced(await gathered(client, stage, load))
        finally:
            await load.close()
    lost = [load.asked[name] for name in _list_lost(ledger) if name in load.asked]
    return Outcome(row, len(load.asked), is_quiet, ledger, find_reach(lost, cuts))


async def _cut(stage: PowerStage, load: Load, turn: int, tell: Tell) -> float:
    """When it was, by the steady clock."""
    await asyncio.sleep(stage.row.load_s)
    numbers = await stage.choose(turn)
    at = time.monotonic()
    await stage.end_life(numbers)
    await asyncio.sleep(AWAY_S)
    await stage.start_again(numbers)
    is_well = await _recover(stage, load)
    waiting = (
        f"asked {len(load.asked)}, waiting {len(load.waiting)}{'' if is_well else ', not well'}"
    )
    tell(f"{stage.row.name}: cut {turn + 1} of {stage.row.cuts}; {waiting}")
    return at


async def _recover(stage: PowerStage, load: Load) -> bool:
    """Whether requests are answered again, and copies current: the next cut is another one."""
    before = _count_answered(load)

    async def is_well() -> bool:
        return _count_answered(load) > before and await stage.is_current()

    try:
        await until(is_well, within_s=WELL_AGAIN_WITHIN_S)
    except AssertionError:
        return False
    return True


def _count_answered(load: Load) -> int:
    return len(load.asked) - len(load.waiting)


def _list_lost(ledger: Ledger) -> set[str]:
    return {name for row in ledger.rows if row.name in MATTERS for name in row.lost}


def find_reach(lost: Iterable[Asked], cuts: Iterable[float]) -> float:
    """How far back the cuts reach: each loss is counted from the first cut after its answer."""
    answered = [one.answers[0].at for one in lost if one.answers]
    each = [min((cut - at for cut in cuts if cut >= at), default=0.0) for at in answered]
    return max(each, default=0.0)
