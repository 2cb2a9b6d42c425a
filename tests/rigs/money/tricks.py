"""What a row's clients do: honest ones beside every row, and the hostile moves that a client or a
tenant makes.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from random import Random

from msgspec import Struct
from nats.aio.client import Client

from tests.rigs.money.asking import Asker
from tests.rigs.money.ids import assignment_id_of
from tests.rigs.money.moves import a_result, forge_beside
from tests.rigs.money.prices import ENDLESS, FLAKY, GOOD, SLY, TALKER
from tests.rigs.money.watching import Watch
from tests.rigs.money.worker import tell

AT_ONCE = 2
SAME = 10  # invocations under one id
PROMPT = "Tell me how the day went at the harbour, and who came."


class Play(Struct, frozen=True):
    """What a row's clients have at hand. `worker`: the hostile worker's own connection, for a
    tenant that acts together with it.
    """

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


Move = Callable[[Play], Awaitable[None]]


async def run_in_order(
    count: int, ask: Callable[[int], Awaitable[object]], at_once: int = AT_ONCE
) -> None:
    """One after another, some at once."""
    numbers = iter(range(count))

    async def ask_some() -> None:
        for number in numbers:
            await ask(number)

    await asyncio.gather(*(ask_some() for _ in range(at_once)))


async def be_honest(play: Play) -> None:
    """Two of four are pushed, one is invoked, one is a stream."""

    async def ask(number: int) -> object:
        name = play.name(number, play.good)
        if number % 4 < 2:
            return await play.honest.push(play.good, name)
        if number % 4 == 2:
            return await play.honest.invoke(play.good, name, GOOD)
        return await play.honest.stream(play.good, name, GOOD)

    await run_in_order(play.requests, ask)
    play.is_honest_done.set()


# -- hostile


async def push(play: Play) -> None:
    """The worker does the rest."""
    await run_in_order(play.requests, lambda number: play.hostile.push(play.bad, play.name(number)))


async def push_dear(play: Play) -> None:
    """The first one, and once it is metered all others at once."""
    await play.hostile.push(play.bad, play.name(0), policy="dear")
    await play.watch.until_metered(play.bad, [assignment_id_of(play.bad, play.name(0))])
    count = min(play.requests, 300) - 1
    await run_in_order(
        count, lambda number: play.hostile.push(play.bad, play.name(number + 1), policy="dear"), 16
    )


async def invoke_under_one_id(play: Play) -> None:
    """Ten invocations under each id, the same content and others."""

    async def ask(number: int) -> object:
        body = "again" if number % 2 else f"other {number}"
        return await play.hostile.invoke(
            play.bad, play.name(number // SAME), GOOD, body=body, tries=1
        )

    await run_in_order(play.requests, ask)


async def invoke_for_own_assignment(play: Play) -> None:
    """Each assignment of one's own, then invocations under its id, which follows from the
    request's.
    """

    async def ask(number: int) -> None:
        name = play.name(number)
        await play.hostile.push(play.bad, name)
        under = assignment_id_of(play.bad, name)
        for again in range(4):
            body = "again" if again % 2 else f"other {again}"
            await play.hostile.invoke(
                play.bad, under, GOOD, body=body, tries=1, metadata={"assignment_id": under}
            )

    await run_in_order(max(1, play.requests // 5), ask)


async def invoke_for_others(play: Play) -> None:
    """Under the ids of the honest tenant's requests and assignments."""

    async def ask(number: int) -> object:
        theirs = play.name(number, play.good)
        under = theirs if number % 2 else assignment_id_of(play.good, theirs)
        return await play.hostile.invoke(play.bad, under, GOOD, metadata={"assignment_id": under})

    await run_in_order(play.requests, ask)


async def ask_many_times(play: Play) -> None:
    """Each request three times at once, and once more later."""

    async def ask(number: int) -> None:
        name = play.name(number)
        is_pushed = number % 3 == 0

        async def once() -> object:
            return await (
                play.hostile.push(play.bad, name)
                if is_pushed
                else play.hostile.invoke(play.bad, name, GOOD)
            )

        await asyncio.gather(once(), once(), once())
        await once()

    await run_in_order(max(1, play.requests // 4), ask)


async def invoke_flaky(play: Play) -> None:
    await run_in_order(
        play.requests, lambda number: play.hostile.invoke(play.bad, play.name(number), FLAKY)
    )


async def invoke_sly(play: Play) -> None:
    await run_in_order(
        play.requests, lambda number: play.hostile.invoke(play.bad, play.name(number), SLY)
    )


async def cut_streams(play: Play) -> None:
    """The client leaves after some pieces of every third stream; a few more fall silent, two at a
    time, for a breaker counts those.
    """

    async def ask(number: int, *, is_silent: bool) -> object:
        pieces = play.dice.randint(5, 30)
        place = play.dice.randint(1, pieces - 1)
        options = {
            "pieces": pieces,
            "seed": number,
            "tells": number % 3 != 2,
            **({"silent": place} if is_silent else {}),
        }
        leave = place if number % 3 == 1 and not is_silent else None
        return await play.hostile.stream(
            play.bad, play.name(number), TALKER, body=PROMPT, options=options, leave_after=leave
        )

    few = max(1, play.requests // 40)
    await asyncio.gather(
        run_in_order(play.requests - few, lambda number: ask(number, is_silent=False), 4),
        run_in_order(few, lambda number: ask(play.requests - 1 - number, is_silent=True), 2),
    )


async def invoke_beyond(play: Play) -> None:
    """More than the budget allows."""
    count = min(play.requests, 200)
    await run_in_order(
        count, lambda number: play.hostile.invoke(play.bad, play.name(number), GOOD, tries=2), 8
    )


async def stream_beyond(play: Play) -> None:
    """Streams that do not end by themselves, and cost more than the budget holds."""
    await run_in_order(
        min(play.requests, 8),
        lambda number: play.hostile.stream(play.bad, play.name(number), ENDLESS),
        2,
    )


async def report_early(play: Play) -> None:
    """Results come before their assignments, for nothing, and are metered; then the work is done."""
    references = [assignment_id_of(play.bad, play.name(number)) for number in range(play.requests)]

    async def report(number: int) -> None:
        await tell(
            play.worker,
            a_result(_assignment(play.bad, play.name(number)), 0),
            f"early-{uuid.uuid4().hex}",
        )

    await run_in_order(play.requests, report)
    await play.watch.until_metered(play.bad, references)
    await push(play)


async def report_for_others(play: Play) -> None:
    """Once the honest tenant's assignments are metered they are reported again: as one's own,
    dearer, as failed.
    """
    await push(play)
    await play.is_honest_done.wait()
    theirs = [play.name(number, play.good) for number in range(play.requests) if number % 4 < 2]
    await play.watch.until_metered(
        play.good, [assignment_id_of(play.good, name) for name in theirs]
    )

    async def report(number: int) -> None:
        for result in forge_beside(_assignment(play.good, theirs[number]), play.bad):
            await tell(play.worker, result, f"forged-{uuid.uuid4().hex}")

    await run_in_order(len(theirs), report)


async def report_after_expiry(play: Play) -> None:
    """Everything is pushed and done; once the records are gone all is reported again, dearer, with
    each status.
    """
    await push(play)
    await play.is_honest_done.wait()
    await play.watch.until_metered(
        play.bad, [assignment_id_of(play.bad, play.name(number)) for number in range(play.requests)]
    )
    await play.watch.until_forgotten()

    async def report(number: int) -> None:
        for status in ("success", "timeout", "error"):
            result = a_result(_assignment(play.bad, play.name(number)), 0.5, status=status)
            await tell(play.worker, result, f"late-{uuid.uuid4().hex}")

    await run_in_order(play.requests, report)


def _assignment(tenant: str, name: str) -> dict[str, str]:
    """As any client can write it that knows the request."""
    return {
        "assignment_id": assignment_id_of(tenant, name),
        "request_id": name,
        "tenant_id": tenant,
    }


RECORD_TTL_MS = 20_000
