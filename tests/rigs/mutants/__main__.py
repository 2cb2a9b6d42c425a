"""`python -m tests.rigs.mutants`: small faults in what decides, and whether the nearest tests notice.

A sample by seed; --all takes every mutant of the rooms of --only. Exit status: 1 if more than the
share of --allow survives, else 0.
"""

import argparse
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.machine import facts
from tests.rigs.mutants.changes import Change, find_changes
from tests.rigs.mutants.judged import name_change, name_told, read_judged
from tests.rigs.mutants.nearest import find_nearest, to_module
from tests.rigs.mutants.report import share_alive, summarise, tell, write_page
from tests.rigs.mutants.trees import Process, Tree
from tests.rigs.mutants.trial import Bench, Finding, Verdict

TOP = Path(__file__).parents[3]
# What decides, by its room.
ROOMS = {
    "budgets": "router/budgets/model/**/*.py",
    "policies": "router/policies/model/**/*.py",
    "decide": "router/decide/model/**/*.py",
    "work": "router/work/model/**/*.py",
    "extensions": "router/extensions/model/**/*.py",
    "delivery": "router/delivery/consume/**/*.py",
    "contracts": "router/contracts/*.py",
    "core": "router/core/**/*.py",
}


def read_options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m tests.rigs.mutants", description=__doc__)
    options.add_argument("--only", choices=ROOMS, nargs="*", help="these rooms alone")
    options.add_argument("--all", action="store_true", help="every mutant, no sample")
    options.add_argument("--count", type=int, default=200, help="how many (200)")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--files", type=int, default=40, help="test files a mutant, nearest first")
    options.add_argument("--limit", type=float, default=180, help="seconds that they may take")
    options.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    options.add_argument("--allow", type=float, help="exit 1 if a greater share survives")
    options.add_argument(
        "--json", type=Path, help="one finding a line; those that are there already are believed"
    )
    options.add_argument("--write", type=Path, help="the page")
    return options.parse_args()


def choose(chosen: argparse.Namespace) -> list[Change]:
    """In the order of the rooms, so that what matters most is known first."""
    changes = [
        change
        for room in ROOMS
        if not chosen.only or room in chosen.only
        for file in sorted(TOP.glob(ROOMS[room]))
        for change in find_changes(file.read_text(), file.relative_to(TOP).as_posix())
    ]
    print(f"{len(changes)} mutants", file=sys.stderr)
    if chosen.all or chosen.count >= len(changes):
        return changes
    sample = random.Random(chosen.seed).sample(range(len(changes)), chosen.count)
    return [changes[number] for number in sorted(sample)]


def list_known(changes: Sequence[Change], file: Path | None) -> Iterator[Finding]:
    """What is judged, and what the file has from a run that was interrupted."""
    judged = read_judged()
    lines = file.read_text().splitlines() if file and file.exists() else []
    told = {(one["line"], *name_told(one)): one for one in map(json.loads, lines)}
    for change in changes:
        if name_change(change) in judged:
            reason = judged[name_change(change)]
            yield Finding(change=change, verdict=Verdict.JUDGED, reason=reason)
        elif one := told.get((change.line, *name_change(change))):
            facts = {name: one[name] for name in ("by", "ran", "files")}
            yield Finding(change=change, verdict=Verdict(one["verdict"]), **facts)


def try_all(
    changes: Sequence[Change], chosen: argparse.Namespace, told: Callable[[Finding], None]
) -> None:
    nearest = {
        file: find_nearest(to_module(file), TOP, chosen.files)
        for file in {change.file for change in changes}
    }
    waiting: queue.SimpleQueue[Change] = queue.SimpleQueue()
    for change in changes:
        waiting.put(change)
    files = sorted({file for near in nearest.values() for file in near})
    with tempfile.TemporaryDirectory(prefix="mutants-") as place, ExitStack() as stack:
        # Both import at the same time.
        opened = [
            open_processes(stack, Path(place), number, files) for number in range(chosen.jobs)
        ]
        benches = [Bench(*processes, chosen.limit) for processes in opened]
        stopped = threading.Event()
        workers = [
            threading.Thread(target=work, args=(bench, waiting, nearest, told, stopped))
            for bench in benches
        ]
        stack.callback(stopped.set)
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def open_processes(
    stack: ExitStack, place: Path, number: int, files: Sequence[str]
) -> tuple[Tree, Process, Process]:
    tree = Tree(TOP, place / str(number))
    log = place / f"{number}.log"
    warm = stack.enter_context(Process(tree, files, log))
    cold = stack.enter_context(Process(tree, (), log))
    return tree, warm, cold


def work(
    bench: Bench,
    waiting: "queue.SimpleQueue[Change]",
    nearest: dict[str, list[str]],
    told: Callable[[Finding], None],
    stopped: threading.Event,
) -> None:
    while not stopped.is_set():
        try:
            change = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            told(bench.try_change(change, nearest[change.file]))
        except RuntimeError:
            if not stopped.is_set():
                raise


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = read_options()
    changes = choose(chosen)
    findings = [*list_known(changes, chosen.json)]
    known = {finding.change for finding in findings}
    waiting = [one for one in changes if one not in known]

    def told(finding: Finding) -> None:
        findings.append(finding)
        print(f"{len(findings)}/{len(changes)} {tell(finding)}", flush=True)
        if chosen.json:
            with chosen.json.open("a") as lines:
                lines.write(json.dumps(finding.as_json()) + "\n")

    try:
        try_all(waiting, chosen, told)
    except KeyboardInterrupt:
        print("interrupted: what is known so far", file=sys.stderr)
    print(summarise(findings))
    if chosen.write:
        chosen.write.write_text(write_page(findings, tell_facts()))
    return int(chosen.allow is not None and share_alive(findings) > chosen.allow)


def tell_facts() -> dict[str, str]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    command = " ".join(["python -m tests.rigs.mutants", *sys.argv[1:]])
    return {"commit": commit or "unknown", **facts(command)}


if __name__ == "__main__":
    sys.exit(main())
