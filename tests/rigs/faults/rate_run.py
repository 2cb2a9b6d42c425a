"""`python -m tests.rigs.faults.rate_run > bench/results/rate_limits.md`: one limit over four
routers, one is killed.

The load is several times the limit.
Exit status: 0 as promised, 1 not.
"""

import argparse
import asyncio
import math
import sys
import time
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct
from nats.aio.client import Client
from nats.errors import TimeoutError as NoAnswer

from bench.machine import facts
from router.config import Settings
from router.policies.model.rate_limits import PART
from tests.rigs.faults.rate_stage import RateStage, wrong_clock
from tests.rigs.faults.stage import Cast, on_stage
from tests.support.stories import a_request, ask

PATIENCE_S = 20.0
LEAST = 0.8  # of what the limit allows
ALLOWED, REFUSED, SILENT = "allowed", "rate_limit_exceeded", "no answer"


class RateRun(Struct, frozen=True):
    """What a run is to be. `rate`: requests a second that are allowed; `load`: how many times that
    is asked; `stretch_s`: of a row.
    """

    rate: int = 40
    burst: int = 40
    load: int = 5
    instances: int = 4
    seconds: float = 30.0
    stretch_s: float = 5.0

    @property
    def slice(self) -> int:
        return max(1, min(self.rate, self.burst) // PART)

    def count_allowed(self, seconds: float) -> float:
        """By the limit, in the first so many seconds."""
        return self.burst + self.rate * seconds


class RateReport(Struct, frozen=True):
    """What it was. `allowed_s`: when each allowed request was answered, seconds from the first
    request; `seconds`: to the last answer.
    """

    allowed_s: list[float]
    answers: Counter[str]
    seconds: float
    kills: int
    clock_steps: int

    @property
    def last_s(self) -> float:
        """When the last request was let through."""
        return max(self.allowed_s, default=0.0)

    def find_most(self, given: RateRun) -> int:
        """What may be let through: the limit, and a slice of each instance."""
        return int(given.count_allowed(self.last_s)) + given.instances * given.slice

    def find_least(self, given: RateRun) -> int:
        return int(LEAST * given.count_allowed(self.seconds))

    def is_kept(self, given: RateRun) -> bool:
        is_answered = not self.answers.keys() - {ALLOWED, REFUSED}
        return is_answered and self.find_least(given) <= len(self.allowed_s) <= self.find_most(
            given
        )


class OpenLoad:
    """Each request when it is due, whatever became of those before it."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._began = time.monotonic()
        self.allowed_s: list[float] = []
        self.answers: Counter[str] = Counter()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    async def ask_all(self, requests: int, a_second: int) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(requests):
                await asyncio.sleep(number / a_second - self.seconds)
                tasks.create_task(self._ask(number))

    async def _ask(self, number: int) -> None:
        try:
            answer = await ask(
                self._client, self._settings, a_request(number), timeout_s=PATIENCE_S
            )
        except NoAnswer:
            self.answers[SILENT] += 1
            return
        self.answers[ALLOWED if answer["ok"] else answer["error"]["code"]] += 1
        if answer["ok"]:
            self.allowed_s.append(self.seconds)


async def run(given: RateRun) -> RateReport:
    """Everything, from the first process to the last answer."""
    cast = Cast(routers=given.instances, workers=0, extensions=0, is_proxied=False, ack_wait_s=1.0)
    async with on_stage(
        cast, lambda cast, home: RateStage(cast, home, given.rate, given.burst)
    ) as stage:
        client = await stage.client()
        load = OpenLoad(client, stage.settings)
        killing = asyncio.create_task(_kill_in_the_middle(stage, given.seconds))
        await load.ask_all(int(given.rate * given.load * given.seconds), given.rate * given.load)
        seconds = load.seconds
        kills, clock_steps = await killing
        await client.close()
    return RateReport(load.allowed_s, load.answers, seconds, kills, clock_steps)


async def _kill_in_the_middle(stage: RateStage, seconds: float) -> tuple[int, int]:
    """kill -9 of one router, which starts again later, and another one's clock five minutes ahead.
    How many of each.
    """
    await asyncio.sleep(seconds / 3)
    steps = wrong_clock(stage)
    await asyncio.sleep(seconds / 6)
    stage.routers[0].kill()
    await asyncio.sleep(seconds / 4)
    stage.routers[0].spawn()
    return 1, steps


def render(given: RateRun, report: RateReport, machine: Mapping[str, str]) -> str:
    """The page."""
    known = "".join(
        f"- {name}: {machine[name]}\n"
        for name in ("date", "commit", "CPU", "system", "Python", "nats-server")
        if name in machine
    )
    allowed, least, most = len(report.allowed_s), report.find_least(given), report.find_most(given)
    answers = ", ".join(f"{count:,} {kind}" for kind, count in sorted(report.answers.items()))
    verdict = "As promised." if report.is_kept(given) else "**Not as promised.**"
    return f"""# One rate limit over {given.instances} routers

`python -m tests.rigs.faults.rate_run` wrote this: one tenant's policy allows {given.rate} requests a second
and a burst of {given.burst}, and {given.load} times as many are asked for {given.seconds:.0f} s, each when it is due.
After a third of the time the clock of one router steps
five minutes ahead; in the middle another one is killed (kill -9), and starts again after a quarter of the time.
[Shared rate limits](../../docs/reference/policies.md#shared-rate-limit) says how the routers share.

{known}
Answers: {answers}; the last one after {report.seconds:.1f} s.

| let through | at least | at most | of the limit |
|---:|---:|---:|---:|
| {allowed:,} | {least:,} | {most:,} | {allowed / given.count_allowed(report.seconds):.3f} |

{verdict} *At least*: {LEAST:.0%} of what the limit allows until the last answer, {given.burst} + {given.rate} × {report.seconds:.1f}.
*At most*: what it allows until the last request that was let through, and {given.slice} tokens, a slice, of each router.

| seconds | let through | a second |
|---|---:|---:|
{_write_course(given, report)}"""


def _write_course(given: RateRun, report: RateReport) -> str:
    rows = []
    for number in range(math.ceil(report.last_s / given.stretch_s)):
        begins, ends = number * given.stretch_s, (number + 1) * given.stretch_s
        count = sum(begins <= at < ends for at in report.allowed_s)
        rows.append(f"| {begins:.0f} to {ends:.0f} | {count:,} | {count / given.stretch_s:.1f} |\n")
    return "".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument(
        "--rate", type=int, default=40, help="requests a second that are allowed, and the burst"
    )
    options = parser.parse_args()
    given = RateRun(rate=options.rate, burst=options.rate, seconds=options.seconds)
    report = asyncio.run(run(given))
    print(render(given, report, facts("")), end="")
    return 0 if report.is_kept(given) else 1


if __name__ == "__main__":
    sys.exit(main())
