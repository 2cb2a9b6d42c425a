"""`python -m tests.rigs.money`: hostile players beside honest ones, and whether money follows the
work. `make money` runs it.

Exit status: 0 every row holds, 1 not, 2 the run broke; 130 Ctrl-C. The control's rows change none
of these.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.machine import facts
from tests.rigs.faults.life import INTERRUPTED, run_until_told
from tests.rigs.money.page import render_page
from tests.rigs.money.rows import BY_NAME, ROWS
from tests.rigs.money.run import Plan, TreeResults, run
from tests.rigs.money.verdicts import is_kept
from tests.rigs.neighbours.part import Broken
from tests.rigs.neighbours.tree import Tree, check_out, find_own_tree

BROKEN = 2
FACTS = ("date", "command", "CPU", "memory", "system", "Python", "nats-server")


async def run_all(plan: Plan, control: str | None, write: Path | None) -> list[TreeResults]:
    """On this code, then on the control's."""
    begun, found = time.monotonic(), list[TreeResults]()
    machine = await asyncio.to_thread(facts, " ".join(sys.argv[1:]))
    told = {
        **{name: machine[name] for name in FACTS},
        "load": f"{os.getloadavg()[0]:.1f} before the run",
    }

    def tell(what: str) -> None:
        print(f"[{time.monotonic() - begun:5.0f} s] {what}", file=sys.stderr, flush=True)

    with _trees(control) as trees:
        for tree in trees:
            found.append(await run(plan, tree, tell))
            page = render_page(told, found, plan.seed)
            if write is not None:
                await asyncio.to_thread(write.write_text, page)
    print(page)
    return found


@contextlib.contextmanager
def _trees(control: str | None) -> Iterator[list[Tree]]:
    own = find_own_tree()
    if control is None:
        yield [own]
        return
    with check_out(control) as other:
        yield [own, other]


def status_of(found: TreeResults) -> int:
    return 0 if all(is_kept(row) for row in found.rows) else 1


def main() -> int:
    arguments = _arguments()
    names = arguments.rows.split(",") if arguments.rows else list(BY_NAME)
    plan = Plan(
        [row for row in ROWS if row.name in names],
        arguments.requests,
        arguments.seed,
        kills=arguments.kills,
    )
    try:
        found = run_until_told(run_all(plan, arguments.control, arguments.write))
    except Broken as exc:
        print(f"money: {exc}", file=sys.stderr)
        return BROKEN
    return INTERRUPTED if found is None else status_of(found[0])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.money",
        description=__doc__.partition("\n")[0],
        epilog="rows: " + ", ".join(BY_NAME),
    )
    parser.add_argument("--rows", help="these alone, with commas between them")
    parser.add_argument(
        "--requests", type=int, default=20_000, help="of all rows together (default 20000)"
    )
    parser.add_argument("--seed", type=int, default=7, help="of the kills and the cuts (default 7)")
    parser.add_argument(
        "--kills", type=int, help="at most so many on each stage; default: as many as come"
    )
    parser.add_argument(
        "--control", metavar="REV", help="the same rows on the code of this commit, beside"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the page in this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
