"""`python -m tests.rigs.faults --cluster 3`: the circle on three servers under their faults, then
the ledger.

`make faults CLUSTER=3` runs it.
Exit status: 0 nothing lost, double, stuck or unanswered; 1 something was; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bench.machine import facts
from tests.rigs.faults.cluster.kinds import KINDS
from tests.rigs.faults.cluster.report import page
from tests.rigs.faults.cluster.run import CAST, ClusterRun, run
from tests.rigs.faults.cluster.servers import SIZE
from tests.rigs.faults.kinds import match_kinds
from tests.rigs.faults.life import INTERRUPTED, run_until_told


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    if options.list:
        print("\n".join(kind.name for kind in KINDS))
        return 0
    plan = ClusterRun(
        options.rounds,
        options.seed,
        options.rate,
        options.kinds or KINDS,
        replace(CAST, replicas=options.copies),
        logs=options.logs,
    )
    report = run_until_told(run(plan, facts(_command(options, arguments))))
    if report is None:
        return INTERRUPTED
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    if options.write is not None:
        options.write.write_text(page([report]))
    print(report.text())
    return 0 if report.is_clean else 1


def _command(options: argparse.Namespace, arguments: list[str]) -> str:
    """The command again, without the files that it writes: results are read on other machines."""
    files = {str(file) for file in (options.json, options.write, options.logs) if file is not None}
    kept = [
        argument
        for argument in arguments
        if argument not in {"--json", "--write", "--logs", *files}
    ]
    return shlex.join(["python", "-m", "tests.rigs.faults", *kept])


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.faults --cluster 3",
        description=__doc__.partition("\n")[0],
        epilog=(
            "example:  python -m tests.rigs.faults --cluster 3 --rounds 1 --rate 20 --kinds "
            "'leader of ROUTER_* killed'"
        ),
    )
    parser.add_argument("--cluster", type=int, choices=[SIZE], required=True, help="servers")
    parser.add_argument(
        "--rounds", type=int, default=3, help="every kind comes once a round (default 3)"
    )
    parser.add_argument("--seed", type=int, default=7, help="of the plan and the load")
    parser.add_argument("--rate", type=float, default=100.0, help="requests a second (default 100)")
    parser.add_argument(
        "--kinds",
        action="extend",
        type=partial(match_kinds, KINDS),
        metavar="PATTERN",
        help="of these kinds alone; may be given several times",
    )
    parser.add_argument(
        "--copies",
        type=int,
        choices=[1, 3],
        default=3,
        help="of every stream; 1 is the control: a wiped server must lose",
    )
    parser.add_argument("--list", action="store_true", help="print the names of all kinds")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="keep the whole report in this file"
    )
    parser.add_argument(
        "--logs", type=Path, metavar="DIR", help="keep what every process logged in this directory"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the tables in this file")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
