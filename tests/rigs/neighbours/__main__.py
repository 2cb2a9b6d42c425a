"""`python -m tests.rigs.neighbours`: what a quiet tenant feels beside each neighbour. `make
neighbours` runs it.

Exit status: 0 every promise kept, 1 not, 2 a row could not be measured; 130 Ctrl-C. The control's
figures change none of these.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, to_builtins

from bench.machine import facts
from tests.rigs.faults.life import INTERRUPTED, run_until_told
from tests.rigs.neighbours.page import render_page
from tests.rigs.neighbours.part import Broken
from tests.rigs.neighbours.result import AFTER_S, SECONDS, Results, RowResult, Timing, TreeResults
from tests.rigs.neighbours.row import probe_capacity, run_row
from tests.rigs.neighbours.rows import BY_NAME, ROWS, Row
from tests.rigs.neighbours.tree import Tree, check_out, find_bare_program, find_own_tree
from tests.rigs.neighbours.verdicts import NO, judge, overload_checks

BROKEN = 2
IN_FLIGHT = 256
PROBE_S = 6.0
FACTS = ("date", "command", "CPU", "memory", "system", "Python", "nats-server")


Tell = Callable[[str], None]


class Options(Struct, frozen=True):
    """What to measure. `control`: another commit; `has_bare`: a bare program too; `capacity`:
    requests a second, instead of probing.
    """

    rows: Sequence[Row] = ROWS
    timing: Timing = Timing()
    control: str | None = None
    has_bare: bool = False
    capacity: float | None = None
    # the page is kept here after each row: half an hour's work is not lost to Ctrl-C
    write: Path | None = None


async def run(options: Options) -> Results:
    """Every row on each tree, by turns, so that whatever disturbs the machine disturbs them alike."""
    begun = time.monotonic()

    def tell(what: str) -> None:
        print(f"[{time.monotonic() - begun:5.0f} s] {what}", file=sys.stderr, flush=True)

    with _trees(options.control, has_bare=options.has_bare) as trees:
        measured = [
            TreeResults(tree.commit, options.capacity or await _capacity(tree, tell), [], {})
            for tree in trees
        ]
        machine = await asyncio.to_thread(facts, " ".join(sys.argv[1:]))
        load = f"{os.getloadavg()[0]:.1f} before the first row"
        found = Results(
            {**{name: machine[name] for name in FACTS}, "load": load},
            options.timing.seconds,
            measured,
        )
        capacity = max(one.capacity for one in measured)  # both are sent the same
        for row in options.rows:
            for tree, one in zip(trees, measured, strict=True):
                await _measure(row, tree, one, options.timing, capacity=capacity, tell=tell)
            if options.write is not None:
                options.write.write_text(render_page(found))
    return found


async def _capacity(tree: Tree, tell: Tell) -> float:
    capacity = await probe_capacity(tree, in_flight=IN_FLIGHT, seconds=PROBE_S)
    tell(f"{tree.commit}: {capacity:,.0f} requests a second, {IN_FLIGHT} in flight")
    return capacity


async def _measure(
    row: Row, tree: Tree, measured: TreeResults, timing: Timing, *, capacity: float, tell: Tell
) -> None:
    try:
        found = await run_row(row, tree, timing, capacity)
    except Exception as exc:  # one row that breaks takes no other with it
        measured.broken[row.name] = f"{type(exc).__name__}: {exc}"
        tell(f"{row.name}, {tree.commit}: {traceback.format_exc()}")
        return
    measured.found.append(found)
    tell(_describe(found, judge(found, measured.found)))


def _describe(found: RowResult, kept: str) -> str:
    alone, beside = found.alone, found.beside
    figures = (
        f"p99 {alone.p99_ms:.1f} -> {beside.p99_ms:.1f} ms, lost {beside.lost} of "
        f"{beside.asked}, memory {found.resident_mib:.0f} MiB"
    )
    return (
        f"{found.row}, {found.commit}: {figures}; normal again {found.normal_again_s} s; "
        f"{kept.strip('*') or 'the machine alone'}"
    )


@contextlib.contextmanager
def _trees(control: str | None, *, has_bare: bool) -> Iterator[list[Tree]]:
    trees = [find_own_tree(), *([find_bare_program()] if has_bare else [])]
    if control is None:
        yield trees
        return
    with check_out(control) as other:
        yield [*trees, other]


def status_of(found: Results) -> int:
    first = found.trees[0]
    if first.broken:
        return BROKEN
    kept = all(judge(row, first.found) != NO for row in first.found)
    return (
        0
        if kept
        and all(all(overload_checks(row).values()) for row in first.found if row.row == "overload")
        else 1
    )


def main(only: Sequence[str] = ()) -> int:
    arguments = _arguments()
    try:
        found = (
            _read(arguments.again)
            if arguments.again is not None
            else run_until_told(run(_options(arguments, only)))
        )
    except Broken as exc:  # before the first row: no such commit, or no router
        print(f"neighbours: {exc}", file=sys.stderr)
        return BROKEN
    if found is None:
        return INTERRUPTED
    print(json.dumps(to_builtins(found)) if arguments.json else render_page(found))
    if arguments.again is not None and arguments.write is not None:
        arguments.write.write_text(render_page(found))
    return status_of(found)


def _options(arguments: argparse.Namespace, only: Sequence[str]) -> Options:
    names = arguments.only or only
    rows = [row for row in ROWS if not names or row.name in names]
    timing = Timing(arguments.seconds, arguments.after)
    return Options(
        rows, timing, arguments.control, arguments.bare, arguments.capacity, arguments.write
    )


def _read(path: Path) -> Results:
    return msgspec.json.decode(path.read_bytes(), type=Results)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.neighbours",
        description=__doc__.partition("\n")[0],
        epilog="rows: " + ", ".join(BY_NAME),
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help=f"alone, and beside the neighbour (default {SECONDS:g})",
    )
    parser.add_argument(
        "--after",
        type=float,
        default=AFTER_S,
        help=f"a row is looked at so many seconds more, at most (default {AFTER_S:g})",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=list(BY_NAME),
        metavar="ROW",
        help="this row alone; may be repeated",
    )
    parser.add_argument(
        "--control", metavar="REV", help="the same rows on the code of this commit, beside"
    )
    parser.add_argument(
        "--bare",
        action="store_true",
        help="the same rows beside a bare program that answers at once, in the router's place",
    )
    parser.add_argument(
        "--capacity",
        type=float,
        help="requests a second that `times` multiplies; default: a short probe finds it",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="everything as JSON on standard output, instead of the page",
    )
    parser.add_argument(
        "--from",
        dest="again",
        type=Path,
        metavar="FILE.json",
        help="measure nothing: the page of a former run's --json",
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the page in this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
