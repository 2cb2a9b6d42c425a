"""What runs on a cluster found, as a table by kind; several runs as one page: `python -m
tests.rigs.faults.cluster.report RUN.json …`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median_low

import msgspec
from msgspec import Struct

from tests.rigs.faults.cluster.acks import Loss
from tests.rigs.faults.cluster.held_up import HeldUp
from tests.rigs.faults.cluster.recovery import Cost
from tests.rigs.faults.ledger import Ledger, add_rows, as_table

HEADS = (
    "fault",
    "times",
    "requests",
    "lost",
    "double",
    "stuck",
    "single: never answered",
    "(not stored)",
    "without an extension",
    "longest gap: answers",
    "of it after the election",
    "usage",
    "election p50 / max",
    "well again: answers p50 / max",
    "usage p50 / max",
    "after the end: election p50 / max",
    "after the end p50 / max",
)
MOST_LOSSES = 10  # of which the page tells more
MOST_HELD_UP = 10
COUNTS = ("sent", "lost", "double", "stuck", "unanswered", "unstored", "incomplete")
LEGEND = """
A request is counted with the fault that had begun last when it was sent. *Stuck*: asked again and again, and not answered 30 s
after the end of the fault. *Single*: plain requests that are asked once; *never answered*: of those that the stream has stored; in
brackets those that it has not, for it had no leader: only the client can ask these again. *Without an extension*: decided by its
policy's rule for a missing extension, of which the stage has one process. *Longest gap*: between two first answers, and
between two usage events in their stream; *of it after the election*: from the last new leader that came in that gap to its end,
the routers' and the clients' own part of it (–: no leader came in it).
*Election*: from the start of the fault to the last new leader of a stream, bucket, durable or
the cluster itself before the fault's end, by the servers' advisories; it is part of *well again*: from the start of the fault until every
new request is answered within 1 s, and every usage event is stored 2 s after the answer. The kinds marked * count both from their
end. *After the end*: the same (the later of both) from the end of the fault, which for a kill is the moment the server is started again;
and the last new leader from then to the next fault, where a run has recorded it.
Seconds, seen by a client that always uses a server without a fault; 0.00: no request waited so long.
"""


class ClusterReport(Struct, frozen=True):
    """One run. `machine`: where and with what; `interrupted`: Ctrl-C ended it before its time."""

    machine: dict[str, str]
    seed: int
    rate: float
    copies: int
    is_quiet: bool  # nothing was left to do in the end
    costs: list[Cost]
    from_end: list[str]  # kinds
    balance: Ledger
    deaths: dict[str, int]  # of processes that the run did not kill, by name
    losses: list[Loss] = []
    held_up: list[HeldUp] = []  # of each fault at most one usage event
    # by how much the suite's own event loop was late; None: not recorded
    late_s: float | None = None

    @property
    def is_clean(self) -> bool:
        is_answered = not any(cost.stuck or cost.unanswered for cost in self.costs)
        return (
            self.is_quiet
            and is_answered
            and self.balance.is_clean
            and not any(self.deaths.values())
        )

    @property
    def verdict(self) -> str:
        found = (
            "clean"
            if self.is_clean
            else "NOT CLEAN"
            if self.is_quiet
            else "NOT CLEAN: something was never settled"
        )
        late = (
            ""
            if self.late_s is None
            else (
                f" The suite itself, which all routes pass, was up to {self.late_s:.2f} s late "
                "(99 %)."
            )
        )
        return (
            f"Seed {self.seed}, {self.copies} copies, {len(self.costs)} faults at "
            f"{self.rate:g} requests a second: {found}.{late}"
        )

    def text(self) -> str:
        return f"{tables([self])}\n{self.verdict}\n"


def tables(reports: Sequence[ClusterReport]) -> str:
    """All runs as if they were one."""
    deaths = sum((Counter(report.deaths) for report in reports), Counter[str]())
    ended = (
        ", ".join(f"{name} {times} times" for name, times in sorted(deaths.items()) if times)
        or "none"
    )
    return (
        f"{_by_kind(reports)}\n{_ledger(reports)}\n"
        f"Processes that ended by themselves: {ended}.\n{_losses(reports)}{_held_up(reports)}"
    )


def page(
    reports: Sequence[ClusterReport], control: Sequence[ClusterReport] = (), note: str = ""
) -> str:
    """For readers, in the bench's results."""
    machine = "\n".join(
        f"- {name}: {value}" for name, value in reports[0].machine.items() if name != "command"
    )
    commands = "\n".join(
        f"- {report.machine['date']}: `{report.machine['command']}`. {report.verdict}"
        for report in reports
    )
    against = (
        (
            "\n## The control: one copy, and a server comes back with an empty disk\n\n"
            f"{_control(control)}"
        )
        if control
        else ""
    )
    return f"""# A cluster of three servers under faults

One router process, a fleet of two, two workers, an extension and the clients, on three nats-servers; every process reaches every server
through a proxy, and so do the servers each other. One fault at a time; the next one begins when all processes are ready, all copies
current and all requests answered and metered.

{tables(reports)}{LEGEND}{f"{chr(10)}{note}{chr(10)}" if note else ""}
## Where and how

{machine}

{commands}
{against}"""


def _by_kind(reports: Sequence[ClusterReport]) -> str:
    from_end = {kind for report in reports for kind in report.from_end}
    costs = [cost for report in reports for cost in report.costs]
    lines = [f"| {' | '.join(HEADS)} |", f"| --- |{' ---: |' * (len(HEADS) - 1)}"]
    for kind in sorted({cost.kind for cost in costs}):
        cells = _cells([cost for cost in costs if cost.kind == kind])
        lines.append(f"| {kind}{' *' if kind in from_end else ''} | {' | '.join(cells)} |")
    return "\n".join([*lines, _sums(costs), ""])


def _cells(costs: Sequence[Cost]) -> list[str]:
    *counts, unstored, incomplete = [sum(getattr(cost, name) for cost in costs) for name in COUNTS]
    longest = max(costs, key=lambda cost: cost.gap_answers_s)
    gaps = [
        longest.gap_answers_s,
        longest.gap_after_election_s,
        max(cost.gap_usage_s for cost in costs),
    ]
    elections = [cost.election_s for cost in costs if cost.election_s is not None]
    later_elections = [cost.elected_after_s for cost in costs if cost.elected_after_s is not None]

    def pair(read: Callable[[Cost], float | None]) -> str:
        return _pair([math.inf if (seconds := read(cost)) is None else seconds for cost in costs])

    return [
        *(str(count) for count in (len(costs), *counts)),
        f"({unstored})",
        str(incomplete),
        *("–" if gap is None else f"{gap:.2f}" for gap in gaps),
        _pair(elections),
        pair(lambda cost: cost.answers_well_s),
        pair(lambda cost: cost.usage_well_s),
        _pair(later_elections),
        pair(lambda cost: cost.mended_s),
    ]


def _pair(values: Sequence[float]) -> str:
    if not values:
        return "–"
    return " / ".join(
        "never" if value == math.inf else f"{value:.2f}"
        for value in (median_low(values), max(values))
    )


def _sums(costs: Iterable[Cost]) -> str:
    every = list(costs)
    sums = [
        sum(getattr(cost, name) for cost in every)
        for name in ("sent", "lost", "double", "stuck", "unanswered", "unstored", "incomplete")
    ]
    *counts, unstored, incomplete = sums
    return (
        f"| all | {len(every)} | {' | '.join(str(one) for one in counts)} | ({unstored}) | "
        f"{incomplete} |{' |' * 8}"
    )


def _ledger(reports: Sequence[ClusterReport]) -> str:
    rows = [
        add_rows([report.balance.rows[place] for report in reports])
        for place in range(len(reports[0].balance.rows))
    ]
    refused = sum((Counter(report.balance.refused) for report in reports), Counter[str]())
    times = sum(report.balance.asked_times for report in reports)
    table = as_table(rows, times, sum(len(report.balance.different) for report in reports), refused)
    strange = [f"- {line}" for report in reports for line in report.balance.strange]
    return (
        "\n".join([table, "Dead letters of what was no poison:\n", *strange, ""])
        if strange
        else table
    )


def _losses(reports: Sequence[ClusterReport]) -> str:
    """What became of each message that is lost, as far as its publish acks tell."""
    losses = [loss for report in reports for loss in report.losses]
    lines = [
        (
            f"- {one.name}, {one.stage}: published {_times(one.published_s)}; acknowledged "
            f"{_promises(one)}"
        )
        for one in losses[:MOST_LOSSES]
    ]
    lines += [f"- and {len(losses) - MOST_LOSSES} more"] if len(losses) > MOST_LOSSES else []
    return (
        "\n".join(
            [
                (
                    "\nLost (seconds after the request was sent; a negative sequence: as a "
                    "duplicate):\n"
                ),
                *lines,
                "",
            ]
        )
        if lines
        else ""
    )


def _held_up(reports: Sequence[ClusterReport]) -> str:
    """The usage events that came latest after the end of a fault, step by step."""
    each = sorted(
        (one for report in reports for one in report.held_up),
        key=lambda one: one.after_end_s,
        reverse=True,
    )
    lines = [f"- {one.text}" for one in each[:MOST_HELD_UP]]
    return (
        "\n".join(["\nThe usage events that came latest (seconds):\n", *lines, ""]) if lines else ""
    )


def _promises(loss: Loss) -> str:
    pairs = zip(loss.acked_s, loss.sequences, loss.holds, strict=True)
    return (
        ", ".join(
            f"{at:.3f} as sequence {sequence}, which holds {held}" for at, sequence, held in pairs
        )
        or "never"
    )


def _times(seconds: Sequence[float]) -> str:
    return ", ".join(f"{at:.3f}" for at in seconds) or "never"


def _control(reports: Sequence[ClusterReport]) -> str:
    verdicts = "\n".join(f"- `{report.machine['command']}`: {report.verdict}" for report in reports)
    return f"{verdicts}\n\n{tables(reports)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.faults.cluster.report",
        description="Several runs (--json) as one page.",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN.json")
    parser.add_argument("--control", type=Path, action="append", default=[], metavar="RUN.json")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="put all these runs together in this file"
    )
    parser.add_argument("--note", default="", help="under which circumstances it was measured")
    options = parser.parse_args()
    reports, control = (
        [report for path in paths for report in _read(path)]
        for paths in (options.runs, options.control)
    )
    if options.json is not None:
        options.json.write_bytes(
            msgspec.json.format(msgspec.json.encode([*reports, *control]), indent=1)
        )
    print(page(reports, control, options.note), end="")
    return 0


def _read(path: Path) -> list[ClusterReport]:
    """One run, or those that `--json` has put together."""
    reports: list[ClusterReport] | ClusterReport = msgspec.json.decode(
        path.read_bytes(), type=list[ClusterReport] | ClusterReport
    )
    return reports if isinstance(reports, list) else [reports]


if __name__ == "__main__":
    sys.exit(main())
