"""`python -m tests.rigs.faults.cluster.chains`: relay, inbox, agent and bus on three servers under
their faults, then the ledgers.

Exit status: 0 nothing lost, double or stuck; 1 something was; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from functools import partial
from pathlib import Path

import msgspec

from bench.machine import facts
from tests.rigs.faults.cluster.chains.kinds import KINDS
from tests.rigs.faults.cluster.chains.report import tables
from tests.rigs.faults.cluster.chains.run import CHAINS, USUAL, ChainRun, run
from tests.rigs.faults.kinds import match_kinds
from tests.rigs.faults.life import INTERRUPTED, run_until_told


def main() -> int:
    options = _parse()
    if options.list:
        print("\n".join(kind.name for kind in KINDS))
        return 0
    plan = ChainRun(
        tuple(options.chain or USUAL),
        options.rounds,
        options.seed,
        options.rate,
        tuple(options.kinds or KINDS),
    )
    report = run_until_told(run(plan, facts(_command(options))))
    if report is None:
        return INTERRUPTED
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    print(tables([report]))
    print("clean" if report.is_clean else "NOT CLEAN")
    return 0 if report.is_clean else 1


def _command(options: argparse.Namespace) -> str:
    kept = [argument for argument in sys.argv[1:] if argument not in {"--json", str(options.json)}]
    return shlex.join(["python", "-m", "tests.rigs.faults.cluster.chains", *kept])


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.faults.cluster.chains",
        description=__doc__.partition("\n")[0],
        epilog=(
            "example:  python -m tests.rigs.faults.cluster.chains --chain bus --kinds 'leader *'"
        ),
    )
    parser.add_argument(
        "--chain",
        action="append",
        choices=CHAINS,
        help="may be given several times (default: all but the lake)",
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="every kind comes once a round (default 1)"
    )
    parser.add_argument("--seed", type=int, default=7, help="of the plan")
    parser.add_argument(
        "--rate", type=float, default=10.0, help="messages a second of each chain (default 10)"
    )
    parser.add_argument(
        "--kinds",
        action="extend",
        type=partial(match_kinds, KINDS),
        metavar="PATTERN",
        help="of these kinds alone; may be given several times",
    )
    parser.add_argument("--list", action="store_true", help="print the names of all kinds")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="keep the whole report in this file"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
