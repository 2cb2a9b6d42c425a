"""What runs of chains found, as a page: `python -m tests.rigs.faults.cluster.chains.report RUN.json
…`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median_low

import msgspec

from tests.rigs.faults.cluster.chains.kinds import FROM_END
from tests.rigs.faults.cluster.chains.measure import ChainCost
from tests.rigs.faults.cluster.chains.run import ChainReport
from tests.rigs.faults.ledger import Row, add_rows

HEADS = (
    "fault",
    "times",
    "messages",
    "lost",
    "double",
    "stuck",
    "longest wait",
    "well again p50 / max",
    "after the end p50 / max",
)
LEGEND = """
A message counts with the fault that had begun last when it was first sent. *Lost* and *double* count every effect of the ledger below.
*Stuck*: without its last effect 30 s after the end of the fault. *Longest wait*: from the first try to send a message to its last effect.
*Well again*: from the start of the fault (marked *: from its end) until every new message has its last effect within 2 s. *After the
end*: the same from the end of the fault. Seconds; 0.00: no message waited so long. The senders try again until a message is stored.
"""


def tables(reports: Sequence[ChainReport]) -> str:
    """All runs as if they were one: a table of faults for each chain, and the ledgers."""
    costs = [cost for report in reports for cost in report.costs]
    chains = list(dict.fromkeys(cost.chain for cost in costs))
    parts = [
        f"## {chain}\n\n{_by_kind([cost for cost in costs if cost.chain == chain])}"
        for chain in chains
    ]
    deaths = sum((Counter(report.deaths) for report in reports), Counter[str]())
    ended = (
        ", ".join(f"{name} {times} times" for name, times in sorted(deaths.items()) if times)
        or "none"
    )
    return "\n".join(
        [
            *parts,
            f"## Ledgers\n\n{_ledgers(reports)}",
            f"Processes that ended by themselves: {ended}.",
            "",
        ]
    )


def page(reports: Sequence[ChainReport], note: str = "") -> str:
    machine = "\n".join(
        f"- {name}: {value}" for name, value in reports[0].machine.items() if name != "command"
    )
    commands = "\n".join(
        (
            f"- {report.machine['date']}: `{report.machine['command']}`: "
            f"{'clean' if report.is_clean else 'NOT CLEAN'}."
        )
        for report in reports
    )
    return f"""# The other processes on a cluster of three servers under faults

Beside the circle of requests ([faults_cluster.md](faults_cluster.md)): a relay and an inbox between two databases, an agent, a consumer of
the envelope bus, and in runs of its own the ingest of the lake. Those of one run share three nats-servers, and reach each through a
proxy. PostgreSQL has no fault. One fault at a time; "leader" is the server that leads one of their streams or durables, drawn anew for
each fault.
{LEGEND}
{tables(reports)}{f"{chr(10)}{note}{chr(10)}" if note else ""}
## Where and how

{machine}

{commands}
"""


def _by_kind(costs: Sequence[ChainCost]) -> str:
    lines = [f"| {' | '.join(HEADS)} |", f"| --- |{' ---: |' * (len(HEADS) - 1)}"]
    for kind in sorted({cost.kind for cost in costs}):
        found = [cost for cost in costs if cost.kind == kind]
        counts = [
            len(found),
            *(
                sum(getattr(cost, name) for cost in found)
                for name in ("sent", "lost", "double", "stuck")
            ),
        ]
        longest = _text(max(_number(cost.longest_s) for cost in found))
        cells = [
            *map(str, counts),
            longest,
            _pair(found, lambda cost: cost.well_s),
            _pair(found, lambda cost: cost.mended_s),
        ]
        lines.append(f"| {kind}{' *' if kind in FROM_END else ''} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _pair(costs: Sequence[ChainCost], read: Callable[[ChainCost], float | None]) -> str:
    values = [_number(read(cost)) for cost in costs]
    return f"{_text(median_low(values))} / {_text(max(values))}"


def _number(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds


def _text(seconds: float) -> str:
    return "never" if seconds == math.inf else f"{seconds:.2f}"


def _ledgers(reports: Sequence[ChainReport]) -> str:
    by_name: dict[str, list[Row]] = {}
    for report in reports:
        for row in report.rows:
            by_name.setdefault(row.name, []).append(row)
    lines = [
        "| | sent | found | lost | double | unexpected |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in map(add_rows, by_name.values()):
        lines.append(
            f"| {row.name} | {row.expected} | {row.found} | {len(row.lost)} | "
            f"{len(row.double)} | {len(row.unexpected)} |"
        )
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.faults.cluster.chains.report",
        description="Several runs (--json) as one page.",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN.json")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="put all these runs together in this file"
    )
    parser.add_argument("--note", default="", help="under which circumstances it was measured")
    options = parser.parse_args()
    reports = [report for path in options.runs for report in _read(path)]
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(reports), indent=1))
    print(page(reports, options.note), end="")
    return 0


def _read(path: Path) -> list[ChainReport]:
    """One run, or those that `--json` has put together."""
    found: list[ChainReport] | ChainReport = msgspec.json.decode(
        path.read_bytes(), type=list[ChainReport] | ChainReport
    )
    return found if isinstance(found, list) else [found]


if __name__ == "__main__":
    sys.exit(main())
