"""`python -m tests.rigs.money.streams`: ten thousand streams, a tenth of them cut, and what was
billed for each.

    the reader leaves after some pieces, or its connection is torn at a random byte the provider
    falls silent; the router is told to stop while long streams flow two of three that end tell
    their usage, the others tell nothing: they are estimated, as all are that were cut

Texts are of five languages and of code, mixed in each tenant; the counts are the stand-in's own
(`tokens`). Exit status: 0 all holds, 1 not, 2 the run broke; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from msgspec import Struct

from bench.machine import facts
from tests.rigs.faults.life import INTERRUPTED, run_until_told
from tests.rigs.money.asking import Asker
from tests.rigs.money.events import Event, read_events
from tests.rigs.money.ledger import read_work
from tests.rigs.money.prices import TALKER
from tests.rigs.money.stage import Town, on_stage
from tests.rigs.money.stream_figures import Asking, StreamFigures, compare, render_streams
from tests.rigs.money.tokens import TEXTS
from tests.rigs.money.torn import TornReader, a_torn_reader
from tests.rigs.money.tricks import run_in_order
from tests.rigs.money.watching import UsageReader
from tests.rigs.money.wire import Login
from tests.rigs.neighbours.part import Broken
from tests.rigs.neighbours.tree import Tree, find_own_tree

BROKEN = 2
AT_ONCE = 48
TENANTS = 4
# no silent ones after these: streams that end well lie between those that fail, or a breaker opens
NOISY = 0.9
TELL = 2 / 3  # of those that end
BEYOND = 25  # pieces that a provider still has when its reader leaves
# of those that their reader leaves: its connection ends at a random byte; the others unsubscribe
TORN = 2 / 3
TORN_WITHIN = 1200  # bytes after the last piece that it reads: some pieces
PROMPT = 160  # characters at most
# between two pieces: a fast model. What is under way when a reader leaves is a piece or two then
PAUSE_S = 0.01
LONG = 16  # streams in one wave, before a router is told to stop
LONG_PIECES, LONG_PAUSE_S = 400, 0.03  # twelve seconds: longer than a router that stops waits
WAVE_S = 2.0  # from their beginning to its end
LONGEST_MS = 40_000
QUIET_S = 12.0
LATEST_S = 180.0
READY_S = 60.0

Tell = Callable[[str], None]


class StreamPlan(Struct, frozen=True):
    """`cut`: how many of them; `waves`: of long streams, beside the others."""

    streams: int = 10_000
    cut: int = 1_000
    waves: int = 12
    seed: int = 7
    pause_s: float = PAUSE_S


def plan_streams(plan: StreamPlan) -> list[Asking]:
    """What is asked, in an order that the seed gives; every second cut is the reader's, the others
    are the provider's. Pure.
    """
    dice, names = Random(plan.seed), list(TEXTS)
    cuts = set(dice.sample(range(plan.streams), max(0, plan.cut - plan.waves * LONG // 2)))
    found = []
    for number in range(plan.streams):
        pieces = dice.randint(4, 30)
        place = dice.randint(1, pieces - 1) if number in cuts else None
        by_reader = number in cuts and (dice.random() < 0.5 or number > plan.streams * NOISY)
        text = names[number % len(names)]
        found.append(
            Asking(
                name=f"s-{number}",
                tenant=f"tenant-{dice.randrange(TENANTS)}",
                text=text,
                pieces=pieces + (BEYOND if by_reader else 0),
                seed=dice.randrange(1_000_000),
                prompt_at=dice.randrange(len(TEXTS[text])),
                tells=dice.random() < TELL,
                leave_after=place if by_reader else None,
                torn_after=dice.randint(1, TORN_WITHIN)
                if by_reader and dice.random() < TORN
                else None,
                silent_after=place if place is not None and not by_reader else None,
            )
        )
    return found


async def run(plan: StreamPlan, tree: Tree, tell: Tell) -> StreamFigures:
    """All streams, then the comparison."""
    async with on_stage(tree) as town:
        has_prices = await town.put_prices()
        client = await town.login.connect("gateway", "_INBOX_gateway.one")
        asker, asked = Asker(client), plan_streams(plan)
        tell(f"{tree.commit}: {plan.streams} streams, prices: {'yes' if has_prices else 'none'}")
        begun = time.monotonic()
        waves = asyncio.create_task(_make_waves(town, asker, plan, tell))

        async def ask(number: int) -> None:
            await _ask(town.login, asker, asked[number], pause_s=plan.pause_s)
            if number % 1000 == 999:
                tell(f"{number + 1} asked")

        await run_in_order(len(asked), ask, AT_ONCE)
        long = await waves
        seconds = time.monotonic() - begun
        events, again = await _read_all(town)
        await client.close()
        work = read_work(*town.ledgers)
        return compare(
            [*asked, *long],
            work,
            events,
            dict(asker.answers),
            again=again,
            commit=tree.commit,
            seconds=seconds,
        )


async def _ask(
    login: Login, asker: Asker, one: Asking, *, pause_s: float, longest_ms: int = LONGEST_MS
) -> str:
    options = {"text": one.text, "pieces": one.pieces, "seed": one.seed, "tells": one.tells}
    silent = {"silent": one.silent_after} if one.silent_after is not None else {}
    text = TEXTS[one.text]
    body = (text + text)[one.prompt_at : one.prompt_at + PROMPT]
    given = {**options, **silent, "pause_s": pause_s}

    async def stream(torn: TornReader | None) -> str:
        return await asker.stream(
            one.tenant,
            one.name,
            TALKER,
            body=body,
            options=given,
            leave_after=one.leave_after,
            longest_ms=longest_ms,
            torn=torn,
        )

    if one.torn_after is None:
        return await stream(None)
    async with a_torn_reader(login, one.torn_after) as torn:
        return await stream(torn)


async def _make_waves(town: Town, asker: Asker, plan: StreamPlan, tell: Tell) -> list[Asking]:
    """Long streams, and while they flow one of the routers is told to stop, in turn; a new one
    takes its place.
    """
    dice, found = Random(plan.seed + 1), list[Asking]()
    for wave in range(plan.waves):
        names = list(TEXTS)
        some = [
            Asking(
                name=f"long-{wave}-{number}",
                tenant=f"tenant-{dice.randrange(TENANTS)}",
                text=names[(wave + number) % len(names)],
                pieces=LONG_PIECES,
                seed=dice.randrange(1_000_000),
                prompt_at=dice.randrange(100),
                tells=True,
            )
            for number in range(LONG)
        ]
        found += some
        flowing = [
            asyncio.create_task(_ask(town.login, asker, one, pause_s=LONG_PAUSE_S)) for one in some
        ]
        await asyncio.sleep(WAVE_S)
        router = town.routers[wave % len(town.routers)]
        await asyncio.to_thread(router.stop)
        router.spawn()
        await router.ready()
        counts = Counter(await asyncio.gather(*flowing))
        tell(f"wave {wave + 1}: {dict(counts)}")
    return found


async def _read_all(town: Town) -> tuple[list[Event], int]:
    """Once nothing is stored any more."""
    witness = await town.witness()
    reader, latest = UsageReader(witness), time.monotonic() + LATEST_S
    count, since = 0, time.monotonic()
    while time.monotonic() < min(latest, since + QUIET_S):
        await asyncio.sleep(1)
        if (now := len(await reader.read())) != count:
            count, since = now, time.monotonic()
    stored = await reader.read()
    await witness.close()
    events, again = read_events(stored)
    return events, again


def main() -> int:
    arguments = _arguments()
    plan = StreamPlan(
        arguments.streams, arguments.cut, arguments.waves, arguments.seed, arguments.pause_ms / 1000
    )
    begun = time.monotonic()

    def tell(what: str) -> None:
        print(f"[{time.monotonic() - begun:5.0f} s] {what}", file=sys.stderr, flush=True)

    machine = facts(" ".join(sys.argv[1:]))
    machine["load"] = f"{os.getloadavg()[0]:.1f} before the run"
    try:
        found = run_until_told(run(plan, find_own_tree(), tell))
    except Broken as exc:
        print(f"money: {exc}", file=sys.stderr)
        return BROKEN
    if found is None:
        return INTERRUPTED
    page = render_streams(found, machine)
    print(page)
    if arguments.write is not None:
        arguments.write.write_text(page)
    return 0 if found.is_kept else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.money.streams", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "--streams",
        type=int,
        default=10_000,
        help="how many (default 10000), beside the waves of long ones",
    )
    parser.add_argument(
        "--cut", type=int, default=1_000, help="how many are cut, waves and all (default 1000)"
    )
    parser.add_argument(
        "--waves",
        type=int,
        default=12,
        help="of long streams, each with a router that is stopped (default 12)",
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--pause-ms", type=float, default=PAUSE_S * 1000, help="between two pieces (default 10)"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the page in this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
