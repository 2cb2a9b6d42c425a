"""A process that is killed again and again while it works, and a count of what became of its work.

Every life is given a share of new messages. It ends at a crash point, somewhere inside that share,
or by SIGKILL at any moment; the last one lives until nothing is left. Then ids are counted: lost,
double, unexpected.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from nats.aio.client import Client

from tests.support.broker import Broker
from tests.support.patient_client import connect_patiently
from tests.support.service import RouterProcess

KILLED = 137
AT_RANDOM_S = 0.04  # as long as a share takes to be stored and worked on

# at which pass of a point it dies, at least and at most: each new share must reach the most by
# itself
Passes = tuple[int, int]
Publish = Callable[[range], Coroutine[Any, Any, None]]  # stores the messages of these numbers


class KillPlan(NamedTuple):
    """A process dies `at_point` times at each crash point and `at_random` times anywhere; each life
    is given `share` messages.
    """

    points: tuple[str, ...]
    at_point: int
    at_random: int
    share: int
    # of the points that are not passed once a message
    passes: Mapping[str, Passes] = MappingProxyType({})
    label: str = ""

    @property
    def ends(self) -> list[str | None]:
        return [*self.points * self.at_point, *[None] * self.at_random]

    @property
    def messages(self) -> int:
        return len(self.ends) * self.share

    def passes_of(self, point: str | None) -> Passes:
        return self.passes.get(point or "", (self.share // 4, self.share))

    def __str__(self) -> str:
        at_points = (
            "everywhere"
            if len(self.points) > 1
            else f"{self.points[0]} {self.at_point} ×"
            if self.points
            else ""
        )
        at_random = (
            f"at random {self.at_random} ×" if self.at_random and len(self.points) <= 1 else ""
        )
        return self.label or ", ".join(filter(None, (at_points, at_random)))


class KillCount(NamedTuple):
    """One line of a kill table: what was sent, and what came of it. `wrong` counts what must not
    be, beside lost and double.
    """

    killed: str
    kills: int
    sent: int
    stored: int
    lost: int
    double: int
    wrong: Mapping[str, int] = MappingProxyType({})
    beside: Mapping[str, object] = MappingProxyType({})  # what is only shown

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.double or any(self.wrong.values()))

    @property
    def cells(self) -> tuple[object, ...]:
        return (*self[:6], *self.wrong.values(), *self.beside.values())


class KilledProcess(RouterProcess):
    """A process that is told where to die: `router serve`, unless a subclass says which."""

    def crash_at(self, point: str, passes: int) -> None:
        self._environ["CRASHPOINT"] = f"{point}:{passes}"

    def crash_nowhere(self) -> None:
        self._environ.pop("CRASHPOINT", None)


async def kill_and_restart(process: KilledProcess, plan: KillPlan, publish: Publish) -> None:
    """All lives but the last, which has begun when this returns. Kills at crash points and at
    random take turns.
    """
    ends = plan.ends
    random.shuffle(ends)
    for life, point in enumerate(ends):
        share = range(life * plan.share, (life + 1) * plan.share)
        if point is None:
            await _kill_at_random(process, publish, share)
        else:
            process.crash_at(point, random.randint(*plan.passes_of(point)))
            process.spawn()  # what the last life left may kill it before it is ready
            await publish(share)
            assert await asyncio.to_thread(process.wait) == KILLED, f"it passed {point}"
    process.crash_nowhere()
    await asyncio.to_thread(process.start)


async def _kill_at_random(process: KilledProcess, publish: Publish, share: range) -> None:
    process.crash_nowhere()
    await asyncio.to_thread(process.start)
    publishing = asyncio.create_task(publish(share))
    await asyncio.sleep(random.uniform(0, AT_RANDOM_S))
    process.kill()
    await publishing


def count_ids(
    plan: KillPlan,
    sent: Iterable[str],
    found: Iterable[str],
    wrong: Mapping[str, int] = MappingProxyType({}),
) -> KillCount:
    """What was sent against what is there, by id."""
    expected, there = set(sent), Counter(found)
    return KillCount(
        str(plan),
        kills=len(plan.ends),
        sent=len(expected),
        stored=there.total(),
        lost=len(expected - set(there)),
        double=there.total() - len(there),
        wrong={"unexpected": len(set(there) - expected), **wrong},
    )


@asynccontextmanager
async def a_server() -> AsyncIterator[tuple[str, Client]]:
    """A nats-server of one row's own, and a client on it."""
    with Broker() as broker:
        async with await connect_patiently(broker.url) as client:
            yield broker.url, client
