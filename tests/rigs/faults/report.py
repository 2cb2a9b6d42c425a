"""What a run found, as tables; and several runs as one page: `python -m tests.rigs.faults.report
RUN.json … [--control RUN.json]`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.machine import origin_lines
from tests.rigs.faults import recovery
from tests.rigs.faults.injector import Happened
from tests.rigs.faults.ledger import Ledger, add_rows, as_table


class Report(Struct, frozen=True):
    """One run."""

    seed: int
    minutes: float
    rate: float
    is_quiet: bool  # nothing was left to do in the end
    happened: list[Happened]
    recovered: list[recovery.Recovered]  # of each
    lines: list[recovery.Line]
    balance: Ledger
    deaths: dict[str, int]  # of processes that the run did not kill, by name
    starts_s: list[float]  # what the start of a process took, all of them

    @property
    def is_clean(self) -> bool:
        return self.is_quiet and self.balance.is_clean and not any(self.deaths.values())

    def text(self) -> str:
        return f"{tables([self])}\n{self.verdict}\n"

    @property
    def verdict(self) -> str:
        found = (
            "clean"
            if self.is_clean
            else "NOT CLEAN"
            if self.is_quiet
            else "NOT CLEAN: something was never settled"
        )
        return (
            f"Seed {self.seed}, {self.minutes:g} minutes of faults at {self.rate:g} requests a "
            f"second: {found}."
        )


def tables(reports: Sequence[Report]) -> str:
    """All runs as if they were one."""
    rows = [
        add_rows([report.balance.rows[place] for report in reports])
        for place in range(len(reports[0].balance.rows))
    ]
    refused = sum((Counter(report.balance.refused) for report in reports), Counter[str]())
    times, different = (
        sum(counts)
        for counts in zip(
            *((r.balance.asked_times, len(r.balance.different)) for r in reports), strict=True
        )
    )
    ledger = as_table(rows, times, different, refused)
    return f"{recovery.table(_lines(reports))}\n{ledger}{_deaths(reports)}{_starts(reports)}"


def page(reports: Sequence[Report], control: Report | None = None, note: str = "") -> str:
    """For readers, in the bench's results."""
    verdicts = "\n".join(f"- {report.verdict}" for report in reports)
    against = (
        (
            f"\n## The control: routers that acknowledge first\n\n{control.verdict}\n\n"
            f"{tables([control])}"
        )
        if control is not None
        else ""
    )
    return f"""# The whole circle under faults

{origin_lines()}

{verdicts}

Two routers, two workers, an extension and the clients, on one nats-server; one fault at a time, every kind once a round. Requests are
asked again every two seconds until they are answered, 1 % of them and of the results cannot be read, 0.5 % are jobs that no worker can do.

{tables(reports)}
A request is counted with the fault that had begun last when it was sent. *Decided again* and *metered again*: seconds from a fault's
end, which for a kill is the moment the process is started again, to the first that works, seen by a client; of few times p99 is
the longest. *Longest wait*: of a request sent in that fault's turn, the fault included. In brackets: what may happen twice. An answer
comes again to who asked again, or after a redelivery, and must say the same; work is done again when a worker dies before it could tell.
What is lost is counted at each stage that it does not reach. Acknowledgements are waited for 3 s, shorter than the longest
pause; attempts and all that is not named are the defaults.{f" {note}" if note else ""}
{against}"""


def _lines(reports: Sequence[Report]) -> list[recovery.Line]:
    each: defaultdict[str, list[recovery.Recovered]] = defaultdict(list)
    for one in (one for report in reports for one in report.recovered):
        each[one.kind].append(one)
    sums: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for line in (line for report in reports for line in report.lines):
        sums[line.kind].append((line.sent, line.lost, line.double))
    return [
        recovery.line(kind, each[kind], *map(sum, zip(*sums[kind], strict=True)))
        for kind in sorted(each)
    ]


def _deaths(reports: Iterable[Report]) -> str:
    deaths = sum((Counter(report.deaths) for report in reports), Counter[str]())
    told = (
        ", ".join(f"{name} {times} times" for name, times in sorted(deaths.items()) if times)
        or "none"
    )
    return f"\nProcesses that ended by themselves: {told}."


def _starts(reports: Iterable[Report]) -> str:
    starts = sorted(seconds for report in reports for seconds in report.starts_s)
    if not starts:
        return "\n"
    return (
        f" {len(starts)} starts of a process took {recovery.quantile(starts, 0.5):.1f} s "
        f"(p50), {starts[-1]:.1f} s the longest.\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.faults.report", description="Several runs (--json) as one page."
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN.json")
    parser.add_argument("--control", type=Path, metavar="RUN.json")
    parser.add_argument("--note", default="", help="under which circumstances it was measured")
    told = parser.parse_args()
    reports = [_read(path) for path in told.runs]
    print(
        page(reports, _read(told.control) if told.control is not None else None, told.note), end=""
    )
    return 0


def _read(path: Path) -> Report:
    return msgspec.json.decode(path.read_bytes(), type=Report)


if __name__ == "__main__":
    sys.exit(main())
