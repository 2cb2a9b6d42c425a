"""A process that is killed again and again while it works, and the ledger of what became of its work (docs/durability.md#crash-matrix).

Every life is given a share of new messages. It ends at a named point, somewhere inside that share, or by SIGKILL at
any moment; the last one lives until nothing is left. Then the ledger counts ids: lost, double, unexpected.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import nats
from nats.aio.client import Client

from tests.support.broker import Broker
from tests.support.service import RouterProcess

KILLED = 137
RESULTS = Path(__file__).parents[2] / "bench" / "results"

Passes = tuple[int, int]  # at which pass of a point it dies, at least and at most: each new share must reach the most by itself
Feed = Callable[[range], Coroutine[Any, Any, None]]  # stores the messages of these numbers


class Plan(NamedTuple):
    """How often it dies, at each of its points and at random, and what each life is given. `point` None: at random alone."""

    point: str | tuple[str, ...] | None
    at_point: int
    at_random: int
    share: int
    passes: Mapping[str, Passes] = MappingProxyType({})  # of the points that are not passed once a message

    @property
    def ends(self) -> list[str | None]:
        points = (self.point,) if isinstance(self.point, str) else self.point or ()
        return [*points * self.at_point, *[None] * self.at_random]

    @property
    def messages(self) -> int:
        return len(self.ends) * self.share

    def passes_of(self, point: str | None) -> Passes:
        return self.passes.get(point or "", (self.share // 4, self.share))


class Row(NamedTuple):
    """One line of the table. `expected`: messages sent; `stored`: effects found of them."""

    point: str
    kills: int
    expected: int
    stored: int
    lost: int
    double: int
    unexpected: int
    letters: int

    @property
    def is_exact(self) -> bool:
        return self.stored == self.expected and not (self.lost or self.double or self.unexpected or self.letters)


class Victim(RouterProcess):
    """A router that is told where to die."""

    def to_die_at(self, point: str, passes: int) -> None:
        self._environ["CRASHPOINT"] = f"{point}:{passes}"

    def to_live(self) -> None:
        self._environ.pop("CRASHPOINT", None)


async def killed(victim: Victim, plan: Plan, feed: Feed) -> None:
    """All lives but the last, which has begun when this returns. Kills at the point and at random take turns."""
    ends = plan.ends
    random.shuffle(ends)
    for life, point in enumerate(ends):
        share = range(life * plan.share, (life + 1) * plan.share)
        victim.to_die_at(point or "", random.randint(*plan.passes_of(point)))
        await (_dies_at(victim, point, feed, share) if point is not None else _dies_at_random(victim, feed, share))
    victim.to_live()
    await asyncio.to_thread(victim.start)


async def _dies_at(victim: Victim, point: str, feed: Feed, share: range) -> None:
    victim.spawn()  # what the last life left may kill it before it is ready
    await feed(share)
    assert await asyncio.to_thread(victim.wait) == KILLED, f"it passed {point}"


async def _dies_at_random(victim: Victim, feed: Feed, share: range) -> None:
    victim.to_live()
    await asyncio.to_thread(victim.start)
    feeding = asyncio.create_task(feed(share))
    await asyncio.sleep(random.uniform(0, 0.04))  # as long as a share takes to be stored and worked on
    victim.kill()
    await feeding


def counted(plan: Plan, label: str, expected: Iterable[str], found: Iterable[str], letters: int) -> Row:
    """The ledger: what was sent against what is there, by id."""
    sent, there = set(expected), Counter(found)
    return Row(
        label,
        kills=len(plan.ends),
        expected=len(sent),
        stored=sum(there.values()),
        lost=len(sent - set(there)),
        double=sum(times - 1 for times in there.values()),
        unexpected=len(set(there) - sent),
        letters=letters,
    )


def table(rows: Sequence[Row], sent: str, stored: str) -> str:
    """The rows as Markdown."""
    heads = ("killed", "kills", sent, stored, "lost", "double", "unexpected", "dead letters")
    lines = [heads, ("---", *["---:"] * (len(heads) - 1)), *(tuple(str(cell) for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def publish(name: str, title: str, text: str, note: str) -> None:
    """Keep a table for readers, in the bench's results; `note` says under which settings it holds."""
    (RESULTS / f"{name}.md").write_text(f"# {title}\n\n{text}\n{note}\n")


@asynccontextmanager
async def a_server() -> AsyncIterator[tuple[str, Client]]:
    """A nats-server of one row's own, and a client on it."""
    broker = Broker().start()
    try:
        client = await nats.connect(broker.url)
        yield broker.url, client
        await client.close()
    finally:
        broker.remove()
