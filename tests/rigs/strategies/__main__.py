"""`python -m tests.rigs.strategies`: the course of each strategy on a server of its own; prints or
writes the page.

It takes some fifteen minutes.
Exit status: 0 all is as promised, 1 it is not.
"""

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

from bench.machine import facts
from tests.rigs.strategies.course import Course, run_cheapest, run_least_latency
from tests.rigs.strategies.failing import STRATEGIES, run_failing
from tests.rigs.strategies.page import write_page
from tests.support.broker import Broker

COURSES: Mapping[str, Callable[[str, float], Awaitable[Course]]] = {
    "least_latency": run_least_latency,
    "cheapest": run_cheapest,
    **{
        f"failing-{number}": partial(run_failing, title)
        for number, title in enumerate(STRATEGIES, 1)
    },
}


async def run(name: str, rate: float) -> Course:
    with Broker() as broker:
        return await COURSES[name](broker.url, rate)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.rigs.strategies", description=__doc__)
    options.add_argument("--rate", type=float, default=100.0, help="requests a second")
    options.add_argument("--only", choices=COURSES, nargs="*", help="these courses alone")
    options.add_argument("--write", type=Path, help="the page; else it is printed")
    chosen = options.parse_args()
    load = f"{os.getloadavg()[0]:.1f} before the first course"
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        load += ", on a busy machine"
    courses = [
        asyncio.run(run(name, chosen.rate))
        for name in COURSES
        if not chosen.only or name in chosen.only
    ]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    machine = {
        "commit": commit or "unknown",
        **facts(" ".join(["python -m tests.rigs.strategies", *sys.argv[1:]])),
        "load": load,
    }
    page = write_page(machine, chosen.rate, courses)
    if chosen.write is None:
        print(page, end="")
    else:
        chosen.write.write_text(page)
    return 0 if all(course.is_kept for course in courses) else 1


if __name__ == "__main__":
    sys.exit(main())
