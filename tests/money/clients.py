"""What a row's clients do: honest ones beside every row, and the hostile moves that a client or a tenant makes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from random import Random

from msgspec import Struct
from nats.aio.client import Client

from tests.money.asking import Asker
from tests.money.ids import assignment_id_of
from tests.money.moves import a_result, forge_beside
from tests.money.prices import ENDLESS, FLAKY, GOOD, SLY, TALKER
from tests.money.watching import Watch
from tests.money.worker import tell

AT_ONCE = 2
SAME = 10  # invocations under one id
PROMPT = "Tell me how the day went at the harbour, and who came."


class Scene(Struct, frozen=True):
    """What a row's clients have at hand. `worker`: the hostile worker's own connection, for who acts together with it."""

    row: str
    honest: Asker
    hostile: Asker
    worker: Client
    watch: Watch
    dice: Random
    requests: int  # of each of the two
    is_honest_done: asyncio.Event

    @property
    def good(self) -> str:
        return f"good-{self.row}"

    @property
    def bad(self) -> str:
        return f"bad-{self.row}"

    def name(self, number: int, tenant: str = "") -> str:
        return f"{tenant or self.bad}-{number}"


Move = Callable[[Scene], Awaitable[None]]


async def run_in_order(count: int, ask: Callable[[int], Awaitable[object]], at_once: int = AT_ONCE) -> None:
    """One after another, some at once."""
    numbers = iter(range(count))

    async def ask_some() -> None:
        for number in numbers:
            await ask(number)

    await asyncio.gather(*(ask_some() for _ in range(at_once)))


async def be_honest(scene: Scene) -> None:
    """Two of four are pushed, one is invoked, one is a stream."""

    async def ask(number: int) -> object:
        name = scene.name(number, scene.good)
        if number % 4 < 2:
            return await scene.honest.push(scene.good, name)
        if number % 4 == 2:
            return await scene.honest.invoke(scene.good, name, GOOD)
        return await scene.honest.stream(scene.good, name, GOOD)

    await run_in_order(scene.requests, ask)
    scene.is_honest_done.set()


# -- hostile


async def push(scene: Scene) -> None:
    """The worker does the rest."""
    await run_in_order(scene.requests, lambda number: scene.hostile.push(scene.bad, scene.name(number)))


async def push_dear(scene: Scene) -> None:
    """The first one, and once it is metered all others at once."""
    await scene.hostile.push(scene.bad, scene.name(0), policy="dear")
    await scene.watch.until_metered(scene.bad, [assignment_id_of(scene.bad, scene.name(0))])
    count = min(scene.requests, 300) - 1
    await run_in_order(count, lambda number: scene.hostile.push(scene.bad, scene.name(number + 1), policy="dear"), 16)


async def invoke_under_one_id(scene: Scene) -> None:
    """Ten invocations under each id, the same content and others."""

    async def ask(number: int) -> object:
        body = "again" if number % 2 else f"other {number}"
        return await scene.hostile.invoke(scene.bad, scene.name(number // SAME), GOOD, body=body, tries=1)

    await run_in_order(scene.requests, ask)


async def invoke_for_own_assignment(scene: Scene) -> None:
    """Each assignment of one's own, then invocations under its id, which follows from the request's."""

    async def ask(number: int) -> None:
        name = scene.name(number)
        await scene.hostile.push(scene.bad, name)
        under = assignment_id_of(scene.bad, name)
        for again in range(4):
            body = "again" if again % 2 else f"other {again}"
            await scene.hostile.invoke(scene.bad, under, GOOD, body=body, tries=1, metadata={"assignment_id": under})

    await run_in_order(max(1, scene.requests // 5), ask)


async def invoke_for_others(scene: Scene) -> None:
    """Under the ids of the honest tenant's requests and assignments."""

    async def ask(number: int) -> object:
        theirs = scene.name(number, scene.good)
        under = theirs if number % 2 else assignment_id_of(scene.good, theirs)
        return await scene.hostile.invoke(scene.bad, under, GOOD, metadata={"assignment_id": under})

    await run_in_order(scene.requests, ask)


async def ask_many_times(scene: Scene) -> None:
    """Each request three times at once, and once more later."""

    async def ask(number: int) -> None:
        name = scene.name(number)
        is_pushed = number % 3 == 0

        async def once() -> object:
            return await (scene.hostile.push(scene.bad, name) if is_pushed else scene.hostile.invoke(scene.bad, name, GOOD))

        await asyncio.gather(once(), once(), once())
        await once()

    await run_in_order(max(1, scene.requests // 4), ask)


async def invoke_flaky(scene: Scene) -> None:
    await run_in_order(scene.requests, lambda number: scene.hostile.invoke(scene.bad, scene.name(number), FLAKY))


async def invoke_sly(scene: Scene) -> None:
    await run_in_order(scene.requests, lambda number: scene.hostile.invoke(scene.bad, scene.name(number), SLY))


async def cut_streams(scene: Scene) -> None:
    """The client leaves after some pieces of every third stream; a few more fall silent, two at a time, for a breaker counts those."""

    async def ask(number: int, *, is_silent: bool) -> object:
        pieces = scene.dice.randint(5, 30)
        place = scene.dice.randint(1, pieces - 1)
        options = {"pieces": pieces, "seed": number, "tells": number % 3 != 2, **({"silent": place} if is_silent else {})}
        leave = place if number % 3 == 1 and not is_silent else None
        return await scene.hostile.stream(scene.bad, scene.name(number), TALKER, body=PROMPT, options=options, leave_after=leave)

    few = max(1, scene.requests // 40)
    await asyncio.gather(
        run_in_order(scene.requests - few, lambda number: ask(number, is_silent=False), 4),
        run_in_order(few, lambda number: ask(scene.requests - 1 - number, is_silent=True), 2),
    )


async def invoke_beyond(scene: Scene) -> None:
    """More than the budget allows."""
    count = min(scene.requests, 200)
    await run_in_order(count, lambda number: scene.hostile.invoke(scene.bad, scene.name(number), GOOD, tries=2), 8)


async def stream_beyond(scene: Scene) -> None:
    """Streams that do not end by themselves, and cost more than the budget holds."""
    await run_in_order(min(scene.requests, 8), lambda number: scene.hostile.stream(scene.bad, scene.name(number), ENDLESS), 2)


async def report_early(scene: Scene) -> None:
    """Results come before their assignments, for nothing, and are metered; then the work is done."""
    references = [assignment_id_of(scene.bad, scene.name(number)) for number in range(scene.requests)]

    async def report(number: int) -> None:
        await tell(scene.worker, a_result(_assignment(scene.bad, scene.name(number)), 0), f"early-{uuid.uuid4().hex}")

    await run_in_order(scene.requests, report)
    await scene.watch.until_metered(scene.bad, references)
    await push(scene)


async def report_for_others(scene: Scene) -> None:
    """Once the honest tenant's assignments are metered they are reported again: as one's own, dearer, as failed."""
    await push(scene)
    await scene.is_honest_done.wait()
    theirs = [scene.name(number, scene.good) for number in range(scene.requests) if number % 4 < 2]
    await scene.watch.until_metered(scene.good, [assignment_id_of(scene.good, name) for name in theirs])

    async def report(number: int) -> None:
        for result in forge_beside(_assignment(scene.good, theirs[number]), scene.bad):
            await tell(scene.worker, result, f"forged-{uuid.uuid4().hex}")

    await run_in_order(len(theirs), report)


async def report_after_expiry(scene: Scene) -> None:
    """Everything is pushed and done; once the records are gone all is reported again, dearer, with each status."""
    await push(scene)
    await scene.is_honest_done.wait()
    await scene.watch.until_metered(scene.bad, [assignment_id_of(scene.bad, scene.name(number)) for number in range(scene.requests)])
    await scene.watch.until_forgotten()

    async def report(number: int) -> None:
        for status in ("success", "timeout", "error"):
            result = a_result(_assignment(scene.bad, scene.name(number)), 0.5, status=status)
            await tell(scene.worker, result, f"late-{uuid.uuid4().hex}")

    await run_in_order(scene.requests, report)


def _assignment(tenant: str, name: str) -> dict[str, str]:
    """As far as anyone can tell who knows the request."""
    return {"assignment_id": assignment_id_of(tenant, name), "request_id": name, "tenant_id": tenant}


RECORD_TTL_MS = 20_000
