"""The soak: `python -m tests.rigs.faults.soak --minutes 30 --rate 200`. The circle without faults;
does anything grow?

Requests are decided and pushed, a worker does them, results are metered. Every five seconds a
sample of the router and of the server; in the end a line through each series after the warm-up
(`slope`). Exit status: 0 everything of the router is flat and the ledger clean, 1 not, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import fmean
from typing import Any

from msgspec import to_builtins
from nats.aio.client import Client

from bench.machine import origin_lines
from tests.rigs.faults.clients import Clients
from tests.rigs.faults.gathered import gathered
from tests.rigs.faults.ledger import Ledger, balanced
from tests.rigs.faults.life import INTERRUPTED, run_until_told
from tests.rigs.faults.load import Load, Mix
from tests.rigs.faults.quiet import ALL_QUIET_S, quiesce
from tests.rigs.faults.slope import FLAT, Line, fitted
from tests.rigs.faults.stage import Cast, on_stage
from tests.rigs.faults.vitals import ALLOWED, BESIDE, LEVEL, ProfiledStage, Sample, looked

EVERY_S = 5.0
# of the time: memories, the server's windows and the interpreter's tables take their size
WARM_UP = 0.5
# of the warm-up, for what is remembered is remembered ten minutes; and of the samples after it
LEAST_MINUTES = 12
PROBE_IN_FLIGHT = 64
PROBE_S = 15.0
PATIENCE_S = 30.0  # where nothing breaks, who asks again soon only makes a busy machine busier
ALONE = Cast(routers=1, workers=1, extensions=0, is_proxied=False)
HEALTHY_ALL = Mix(poisoned=0.0, hopeless=0.0)


async def soak(minutes: float, rate: float | None) -> tuple[list[Sample], dict[str, Any], Ledger]:
    """The samples, what was done, and the ledger."""
    capacity = await _capacity() if rate is None else None
    async with _a_circle() as (client, stage):
        return await _soaked(
            client, stage, minutes, (rate or 0) if capacity is None else capacity / 2, capacity
        )


@contextlib.asynccontextmanager
async def _a_circle() -> AsyncIterator[tuple[Client, ProfiledStage]]:
    async with on_stage(ALONE, ProfiledStage) as stage:
        client = await stage.client()
        try:
            yield client, stage
        finally:
            await client.close()


async def _soaked(
    client: Client, stage: ProfiledStage, minutes: float, rate: float, capacity: float | None
) -> tuple[list[Sample], dict[str, Any], Ledger]:
    load = Load(
        Clients([client]),
        stage.settings,
        rate=rate,
        seed=1,
        mix=HEALTHY_ALL,
        policy="plain",
        patience_s=PATIENCE_S,
    )
    http = (await stage.routers[0].ready())["http"]
    samples: list[Sample] = []
    await load.begin()
    try:
        began = time.monotonic()
        while (now := time.monotonic() - began) < minutes * 60:
            samples.append(Sample(now, await looked(stage, http)))
            _progress(now, minutes * 60, load, samples[-1])
            await asyncio.sleep(EVERY_S - (time.monotonic() - began) % EVERY_S)
        load.end_asking()
        await quiesce(stage, client, load, within_s=ALL_QUIET_S)
        facts = await gathered(client, stage, load)
    finally:
        await load.close()
    answered = [one.answers[0].at - one.sent_at for one in load.asked.values() if one.answers]
    done = {
        "minutes": minutes,
        "rate": rate,
        "capacity": capacity,
        "requests": len(load.asked),
        "metered": len(load.metered_at),
        "answer_p50_ms": round(_quantile(answered, 0.5) * 1000, 1),
        "answer_p99_ms": round(_quantile(answered, 0.99) * 1000, 1),
    }
    return samples, done, balanced(facts)


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def _capacity() -> float:
    """Requests a second that come all the way to a usage event, with so many in flight: a short,
    rough look.
    """
    async with _a_circle() as (client, stage):
        load = Load(
            Clients([client]),
            stage.settings,
            rate=0.0,
            seed=0,
            mix=HEALTHY_ALL,
            policy="plain",
            in_flight=PROBE_IN_FLIGHT,
        )
        await load.begin()
        await asyncio.sleep(PROBE_S)
        await load.close()
        late = [at for at in load.metered_at if at >= load.metered_at[-1] - PROBE_S / 2]
        return len(late) / (PROBE_S / 2)


# -- telling


def lines_of(samples: list[Sample]) -> dict[str, Line]:
    """A line through each series, after the warm-up."""
    late = [sample for sample in samples if sample.at >= samples[-1].at * WARM_UP]
    return {
        name: fitted([(sample.at, sample.values[name]) for sample in late], LEVEL.get(name, fmean))
        for name in (*ALLOWED, *BESIDE)
    }


def is_flat(lines: dict[str, Line]) -> bool:
    return all(lines[name].verdict(allowed) == FLAT for name, allowed in ALLOWED.items())


def table(samples: list[Sample], lines: dict[str, Line]) -> str:
    """The series as Markdown."""
    rows = [
        "| | at the start | after the warm-up | at the end | an hour, 95 % | allowed | |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, line in lines.items():
        allowed = ALLOWED.get(name)
        verdict, limit = (
            (line.verdict(allowed), f"{allowed:g}") if allowed is not None else ("", "")
        )
        ends = f"{samples[0].values[name]:.1f} | {line.first:.1f} | {line.last:.1f}"
        rows.append(
            f"| {name} | {ends} | {line.slope:+.2f} ± {line.margin:.2f} | {limit} | {verdict} |"
        )
    return "\n".join(rows) + "\n"


def page_of(
    done: dict[str, Any], samples: list[Sample], lines: dict[str, Line], balance: Ledger
) -> str:
    """All of it, for readers."""
    rate = f"{done['rate']:.0f} requests a second" + (
        f", half of {done['capacity']:.0f}" if done["capacity"] else ""
    )
    answers = f"answered in {done['answer_p50_ms']} ms (median), {done['answer_p99_ms']} ms (p99)"
    return f"""# Does anything grow?

{origin_lines()}

{done["minutes"]:g} minutes at {rate}: {done["requests"]} requests decided, pushed, done by a worker and metered; {answers}.
One router, one worker, one nats-server, the clients beside them on the same machine. A sample every {EVERY_S:g} s.

{table(samples, lines)}
The router is as it is delivered: what it remembers of decisions, assignments and outcomes it forgets after ten minutes, so it has its size
before the line begins. The line is fitted to the means of each minute of the last {(1 - WARM_UP) * 100:.0f} %,
for tasks and descriptors to the least of each minute: they come and go with what is in hand.
*Flat*: its slope is known (95 %) to be at most what is allowed an hour; *growing*: known to be more; *unsure*: the time was too
short to say. The server keeps an entry for each key of its buckets and each remembered id, so it grows with what it stores,
and no limit is set for it here (its *heap* is what the last collection left):
[what its memory follows](../../docs/explanation/sizing.md#sizing-memory).

{balance.table()}"""


def _progress(now: float, of: float, load: Load, sample: Sample) -> None:
    told = "  ".join(
        f"{name.replace(', MiB', '')} {value:.0f}"
        for name, value in sample.values.items()
        if name in ALLOWED
    )
    print(
        f"[{now:5.0f} of {of:.0f} s] asked {len(load.asked)}, waiting {len(load.waiting)}  {told}",
        file=sys.stderr,
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.faults.soak", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument(
        "--rate", type=float, help="requests a second; default: half of what a short probe finds"
    )
    parser.add_argument(
        "--json", action="store_true", help="the samples and lines as JSON on standard output"
    )
    parser.add_argument("--write", type=Path, help="keep the table in this file")
    told = parser.parse_args()
    if told.minutes * min(WARM_UP, 1 - WARM_UP) < LEAST_MINUTES:
        parser.error(
            f"--minutes {told.minutes:g}: a slope needs "
            f"{LEAST_MINUTES / min(WARM_UP, 1 - WARM_UP):g} or more"
        )
    found = run_until_told(soak(told.minutes, told.rate))
    if found is None:
        return INTERRUPTED
    samples, done, balance = found
    lines = lines_of(samples)
    text = page_of(done, samples, lines, balance)
    print(
        json.dumps({"done": done, "lines": to_builtins(lines), "samples": to_builtins(samples)})
        if told.json
        else text
    )
    if told.write is not None:
        told.write.write_text(text)
    return 0 if is_flat(lines) and balance.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
