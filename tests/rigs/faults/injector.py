"""Faults in a seeded order: every kind once a round, a calm between two; what came when is written
down.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from random import Random

from msgspec import Struct
from nats.aio.client import Client

from tests.rigs.faults.kinds import KINDS, FaultScope, Kind
from tests.rigs.faults.stage import Stage

CALM_S = (2.0, 4.0)  # between two faults
PATIENT = 0.75  # so many faults wait until every process is ready
MOST_PATIENT_S = 60.0


class Happened(Struct, frozen=True):
    """One fault that was: its beginning and its end, by the clients' steady clock."""

    kind: str
    began: float
    ended: float


class Planned(Struct, frozen=True):
    """One fault that is to be."""

    kind: Kind
    calm_s: float
    hold_s: float
    # every process is ready again before it begins; else it may meet one that still starts
    is_patient: bool


class Plan:
    """An endless row of faults; the same seed gives the same."""

    def __init__(
        self,
        seed: int,
        kinds: Sequence[Kind] = KINDS,
        calm_s: tuple[float, float] = CALM_S,
        patient: float = PATIENT,
    ) -> None:
        self.dice = Random(seed)
        self._patient = patient
        self._kinds = kinds
        self._calm_s = calm_s
        self._round: list[Kind] = []

    def next(self) -> Planned:
        if not self._round:
            self._round = self.dice.sample(self._kinds, len(self._kinds))
        kind = self._round.pop()
        is_patient = self.dice.random() < self._patient
        return Planned(
            kind,
            self.dice.uniform(*self._calm_s),
            self.dice.uniform(kind.least_s, kind.most_s),
            is_patient,
        )


async def inject(
    stage: Stage,
    client: Client,
    plan: Plan,
    *,
    seconds: float = math.inf,
    times: float = math.inf,
    told: Callable[[Happened], None] = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> list[Happened]:
    """Faults for so long or so many, one at a time, or until it is stopped.

    The last one is over when this returns, and nothing is mended but what it broke.
    """
    happened: list[Happened] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and len(happened) < times and not is_stopped():
        planned = plan.next()
        if planned.is_patient:
            await stage.all_ready(MOST_PATIENT_S)
        await asyncio.sleep(planned.calm_s)
        began = time.monotonic()
        await planned.kind.act(FaultScope(stage, client, plan.dice, planned.hold_s))
        happened.append(Happened(planned.kind.name, began, time.monotonic()))
        told(happened[-1])
    return happened
