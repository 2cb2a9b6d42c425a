"""`python -m tests.rigs.powercut`: power cuts under load, and what they took of what was acknowledged.
`make powercut` runs it.

Exit status: 0 every row is what it must be, 1 not, 2 this machine cannot cut power; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from bench.machine import facts
from tests.rigs.faults.life import INTERRUPTED, run_until_told
from tests.rigs.neighbours.tree import find_own_tree
from tests.rigs.powercut.disk import find_obstacle
from tests.rigs.powercut.page import render_page
from tests.rigs.powercut.rows import BY_NAME
from tests.rigs.powercut.run import Outcome, run
from tests.rigs.powercut.server import find_strace_obstacle
from tests.rigs.powercut.writer import Written, count_lost

BROKEN = 2
LINES = 500
FACTS = ("date", "command", "CPU", "memory", "system", "Python", "nats-server")


async def run_all(arguments: argparse.Namespace) -> bool:
    """Whether every row is what it must be."""
    begun, outcomes = time.monotonic(), list[Outcome]()

    def tell(what: str) -> None:
        print(f"[{time.monotonic() - begun:5.0f} s] {what}", file=sys.stderr, flush=True)

    machine = await asyncio.to_thread(_describe)
    writers = await asyncio.to_thread(_try_the_disk)
    for name in arguments.rows.split(","):
        tell(name)
        outcomes.append(await run(BY_NAME[name], arguments.in_flight, arguments.seed, tell))
        page = render_page(machine, writers, outcomes)
        if arguments.write is not None:
            await asyncio.to_thread(arguments.write.write_text, page)
    print(page)
    is_a_disk = writers[SYNCED].lost == 0 and writers[UNSYNCED].lost > 0
    return is_a_disk and all(outcome.is_as_expected for outcome in outcomes)


SYNCED, UNSYNCED = "syncs each line before it tells", "syncs nothing"


def _try_the_disk() -> dict[str, Written]:
    found = {}
    for name, is_synced in ((SYNCED, True), (UNSYNCED, False)):
        with tempfile.TemporaryDirectory(prefix="router-test-") as home:
            found[name] = count_lost(Path(home), LINES, is_synced=is_synced)
    return found


def _describe() -> dict[str, str]:
    machine = facts(_command())
    return {
        **{name: machine[name] for name in FACTS},
        "commit": find_own_tree().commit,
        "load": f"{os.getloadavg()[0]:.1f} before the run",
    }


def _command() -> str:
    """Without the file that the page goes to."""
    told = sys.argv[1:]
    if "--write" in told:
        place = told.index("--write")
        told = [*told[:place], *told[place + 2 :]]
    return " ".join(["python -m tests.rigs.powercut", *told])


def main() -> int:
    arguments = _arguments()
    needs_strace = any(BY_NAME[name].fsync_us for name in arguments.rows.split(","))
    obstacle = find_obstacle() or (find_strace_obstacle() if needs_strace else None)
    if obstacle is not None:
        print(f"powercut: {obstacle}", file=sys.stderr)
        return BROKEN
    is_well = run_until_told(run_all(arguments))
    return INTERRUPTED if is_well is None else int(not is_well)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.powercut",
        description=__doc__.partition("\n")[0],
        epilog="rows: " + ", ".join(BY_NAME),
    )
    parser.add_argument(
        "--rows", default=",".join(BY_NAME), help="these alone, with commas between them"
    )
    parser.add_argument(
        "--in-flight", type=int, default=8, help="requests without an answer at once (default 8)"
    )
    parser.add_argument("--seed", type=int, default=7, help="of the load (default 7)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the page in this file")
    arguments = parser.parse_args()
    if strange := set(arguments.rows.split(",")) - set(BY_NAME):
        parser.error(f"no such row: {', '.join(sorted(strange))}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
