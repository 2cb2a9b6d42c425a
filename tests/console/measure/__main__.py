"""`python -m tests.console.measure pages | memory`: prints or writes the page. Exit status: 0 all is as promised, 1 it is not."""

import argparse
import asyncio
import os
import subprocess
import sys
from pathlib import Path

from bench.machine import facts
from tests.console.measure.memory import measure_memory
from tests.console.measure.page import replace_part, write_memory, write_pages
from tests.console.measure.pages import measure_pages
from tests.console.measure.stage import a_stage
from tests.support.browser import CHROMIUM, NO_CHROMIUM
from tests.support.console_data import ConsoleData

FULL = ConsoleData(
    letters=100_000,
    groups=40,
    violations=10_000,
    policies=500,
    assignments=5_000,
    extensions=100,
    workers=1_000,
    providers=125,
    usage_days=92,
)
PART = ConsoleData(
    letters=4_000,
    groups=40,
    violations=900,
    policies=40,
    assignments=400,
    extensions=20,
    workers=60,
    providers=5,
    usage_days=9,
)


async def run_pages(rounds: int, machine: dict[str, str]) -> tuple[str, bool]:
    async with a_stage(FULL) as stage:
        times = await measure_pages(stage, rounds)
    return write_pages(machine, stage.stored, rounds, times), all(one.is_soon for one in times)


async def run_memory(minutes: float, machine: dict[str, str]) -> tuple[str, bool]:
    async with a_stage(PART) as stage:
        course = await measure_memory(stage, minutes)
    return write_memory(machine, stage.stored, course), course.is_flat


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.console.measure", description=__doc__)
    options.add_argument("what", choices=("pages", "memory"))
    options.add_argument("--rounds", type=int, default=5, help="visits of each page")
    options.add_argument("--minutes", type=float, default=60.0)
    options.add_argument(
        "--write", type=Path, help="the file, whose other part is kept; else it is printed"
    )
    chosen = options.parse_args()
    machine = facts(" ".join(["python -m tests.console.measure", *sys.argv[1:]])) | {
        "load": f"{os.getloadavg()[0]:.1f} before"
    }
    if chosen.what == "pages":
        if CHROMIUM is None:
            sys.exit(NO_CHROMIUM)
        machine["chromium"] = subprocess.run(
            [CHROMIUM, "--version"], capture_output=True, text=True, check=True
        ).stdout.strip()
        page, is_kept = asyncio.run(run_pages(chosen.rounds, machine))
    else:
        page, is_kept = asyncio.run(run_memory(chosen.minutes, machine))
    if chosen.write is None:
        print(page, end="")
    else:
        chosen.write.write_text(
            replace_part(chosen.write.read_text() if chosen.write.exists() else "", page)
        )
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
