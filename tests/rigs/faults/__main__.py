"""`python -m tests.rigs.faults`: the circle under faults for some minutes, then the ledger. `make
faults` runs it.

With `--cluster 3` it is another command: `cluster/command`.

Exit status: 0 nothing lost, double or unexpected; 1 something was; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from tests.rigs.faults import recovery
from tests.rigs.faults.clients import Clients
from tests.rigs.faults.cluster import command as cluster
from tests.rigs.faults.gathered import gathered
from tests.rigs.faults.injector import CALM_S, Happened, Plan, inject
from tests.rigs.faults.kinds import KINDS, Kind
from tests.rigs.faults.ledger import balanced
from tests.rigs.faults.life import INTERRUPTED, run_until_told
from tests.rigs.faults.load import Load
from tests.rigs.faults.quiet import ALL_QUIET_S, quiesce
from tests.rigs.faults.report import Report, page
from tests.rigs.faults.stage import REAL, Cast, Stage, on_stage

HASTY = "tests.rigs.faults.hasty_router"
# of all streams and buckets; the store's limit leaves room for twice as much
BYTES_A_REQUEST = 8_000


class Given(Struct, frozen=True):
    """What a run is to be. `lead_s`: load alone, before the first fault and after the last."""

    minutes: float = 5.0
    seed: int = 7
    rate: float = 40.0
    kinds: tuple[Kind, ...] = KINDS
    cast: Cast = Cast()
    policy: str | None = None  # the default one calls extensions
    calm_s: tuple[float, float] = CALM_S
    lead_s: float = 2.0


async def run(given: Given) -> Report:
    """Everything, from the first process to the ledger."""
    limit = int(64 * 1024 * 1024 + 2 * given.minutes * 60 * given.rate * BYTES_A_REQUEST)
    async with on_stage(replace(given.cast, store_limit=limit), Stage) as stage:
        client = await stage.client()
        load = Load(
            Clients([client]), stage.settings, rate=given.rate, seed=given.seed, policy=given.policy
        )
        try:
            await load.begin()
            await asyncio.sleep(given.lead_s)
            plan = Plan(given.seed, given.kinds, given.calm_s)
            happened = await inject(
                stage, client, plan, seconds=given.minutes * 60, told=_Progress(load)
            )
            await asyncio.sleep(given.lead_s)
            load.end_asking()
            print("quiescing", file=sys.stderr, flush=True)
            is_quiet = await quiesce(stage, client, load, within_s=ALL_QUIET_S)
            balance = balanced(await gathered(client, stage, load))
        finally:
            await load.close()
            await client.close()
    each = recovery.recovered(happened, load.asked.values(), load.metered_at)
    found = recovery.lines(happened, load.asked, load.metered_at, balance)
    deaths = {child.name: child.deaths for child in stage.children}
    starts = sorted(seconds for child in stage.children for seconds in child.starts_s)
    return Report(
        given.seed,
        given.minutes,
        given.rate,
        is_quiet,
        happened,
        each,
        found,
        balance,
        deaths,
        starts,
    )


class _Progress:
    """A line for each fault."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._began = time.monotonic()

    def __call__(self, fault: Happened) -> None:
        load = self._load
        told = (
            f"asked {len(load.asked)}, waiting {len(load.waiting)}, metered {len(load.metered_at)}"
        )
        lasted = f"{fault.kind} for {fault.ended - fault.began:.1f} s"
        print(
            f"[{time.monotonic() - self._began:4.0f} s] {lasted:34} {told}",
            file=sys.stderr,
            flush=True,
        )


def main() -> int:
    if any(argument.startswith("--cluster") for argument in sys.argv[1:]):
        return cluster.main(sys.argv[1:])
    told = _arguments()
    kinds = tuple(kind for kind in KINDS if not told.only or kind.name in told.only)
    given = Given(
        told.minutes, told.seed, told.rate, kinds, Cast(router=HASTY if told.hasty else REAL)
    )
    report = run_until_told(run(given))
    if report is None:
        return INTERRUPTED
    print(json.dumps(to_builtins(report)) if told.json else report.text())
    if told.write is not None:
        told.write.write_text(page([report]))
    if told.json:
        print(report.text(), file=sys.stderr)
    return 0 if report.is_clean else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.faults",
        description=__doc__.partition("\n")[0],
        epilog=(
            "example:  python -m tests.rigs.faults --minutes 1 --seed 7 --only 'server killed' "
            "--only 'store full'"
        ),
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=5.0,
        help="of faults (default 5: each kind two or three times)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=7,
        help="of the plan and the load: the same seed, the same faults in the same order",
    )
    parser.add_argument("--rate", type=float, default=40.0, help="requests a second (default 40)")
    parser.add_argument(
        "--only",
        action="append",
        choices=[kind.name for kind in KINDS],
        metavar="FAULT",
        help="of these kinds alone",
    )
    parser.add_argument(
        "--cluster",
        metavar="3",
        help="three servers and their faults; --cluster 3 --help tells its options",
    )
    parser.add_argument(
        "--hasty",
        action="store_true",
        help="the control: routers that acknowledge before they store; must not be clean",
    )
    parser.add_argument(
        "--json", action="store_true", help="the whole report as JSON on standard output"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the tables in this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
