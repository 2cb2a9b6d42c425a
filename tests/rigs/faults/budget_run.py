"""`python -m tests.rigs.faults.budget_run > bench/results/budgets.md`: four routers share budgets
and are killed, and so are the commands that adjust bills and budgets; the ledger.

Exit status: 0 clean, 1 not.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from decimal import Decimal
from random import Random

from msgspec import Struct

from bench.machine import origin_lines
from tests.rigs.faults.budget_ledger import COLUMNS, BudgetRow, balance_budgets
from tests.rigs.faults.budget_operator import BudgetOperator, audit_credits
from tests.rigs.faults.budget_silver import MASTER, SilverReport, compare_with_silver
from tests.rigs.faults.budget_stage import RESERVATION_MS, BudgetStage, ask_all, kill_often
from tests.rigs.faults.stage import Cast, on_stage
from tests.support.router_streams import read_stream
from tests.support.stories import Json
from tests.support.waiting import until

SLICE_PERCENT = Decimal(1)  # the default of budgets.slice_percent
SETTLED_S = 180.0


class BudgetRun(Struct, frozen=True):
    """What a run is to be."""

    requests: int = 60_000
    instances: int = 4
    pause_s: tuple[float, float] = (2.0, 5.0)  # between two kills
    seed: int = 7


class BudgetReport(Struct, frozen=True):
    """What it was."""

    answers: Counter[str]
    faults: Counter[str]
    rows: list[BudgetRow]
    seconds: float
    silver: SilverReport
    credits: int
    is_audited: bool  # each credit is one event of usage and one of the audit

    @property
    def is_clean(self) -> bool:
        is_answered = not self.answers.keys() - {"decided", "downgraded", "budget_exceeded"}
        is_exact = all(row.is_clean for row in self.rows) and self.silver.is_right(len(self.rows))
        return is_answered and is_exact and self.is_audited


async def run(given: BudgetRun) -> BudgetReport:
    """Everything, from the first process to the ledger."""
    cast = Cast(routers=given.instances, workers=0, extensions=0, is_proxied=False, ack_wait_s=1.0)
    async with on_stage(cast, BudgetStage) as stage:
        whole = Decimal(given.requests) / 100
        await stage.command("put", "acme", "--amount", str(whole * 8 / 10), "--window", "month")
        downgrade = ("--policy", "default", "--then", "downgrade:cheap")
        await stage.command(
            "put", "acme", "--amount", str(whole * 4 / 10), "--window", "month", *downgrade
        )
        await stage.command(
            "put", "acme", "--amount", str(whole * 2), "--window", "month", "--provider", "b"
        )
        client, faults, began = await stage.client(), Counter[str](), time.monotonic()
        operator = BudgetOperator(stage, Random(given.seed + 1))
        killing = asyncio.create_task(kill_often(stage, Random(given.seed), given.pause_s, faults))
        operator.start(faults)
        try:
            answers = await ask_all(stage, client, given.requests, faults)
        finally:
            killing.cancel()
            await operator.finish()
        seconds = time.monotonic() - began
        shown = await _wait_until_quiet(stage, operator)
        events = [
            (data, headers)
            for _, data, headers in await read_stream(client, stage.settings.streams.usage.name)
        ]
        await client.close()
        rows = balance_budgets(shown, events, given.instances, SLICE_PERCENT)
        is_audited = await audit_credits(stage, operator.credits)
        return BudgetReport(
            answers,
            faults,
            rows,
            seconds,
            await compare_with_silver(stage),
            len(operator.credits),
            is_audited,
        )


async def _wait_until_quiet(stage: BudgetStage, operator: BudgetOperator) -> list[Json]:
    """Every assignment is metered, and every reservation is settled or has expired."""
    shown: list[Json] = []

    async def is_quiet() -> bool:
        shown[:] = await stage.command("list")
        return await _is_metered(stage, shown, operator) and all(
            one["reserved"] == "0" for one in shown
        )

    await until(is_quiet, within_s=SETTLED_S, what="nothing is reserved")
    return shown


async def _is_metered(stage: BudgetStage, shown: list[Json], operator: BudgetOperator) -> bool:
    client = await stage.client()
    streams = stage.settings.streams
    assigned, used = [
        (await client.jsm().stream_info(one.name)).state.messages
        for one in (streams.assignments, streams.usage)
    ]
    await client.close()
    # of the budget of all: not those that name another budget
    settled = max(int(one["events"]) for one in shown)
    return used == assigned + len(operator.credits) == settled + operator.count_of_a_budget()


def render(given: BudgetRun, report: BudgetReport) -> str:
    """The page."""
    faults = report.faults
    answers = ", ".join(f"{count} {kind}" for kind, count in sorted(report.answers.items()))
    checks = "\n".join(f"| {name} | {verdict} |" for name, verdict in report.silver.checks.items())
    table = "\n".join(f"| {' | '.join(row.cells())} |" for row in report.rows)
    return f"""# Budgets over instances that are killed

{origin_lines()}

{given.requests} requests to {given.instances} routers in {report.seconds:.0f} s.
{faults["kills"]} times one was killed (kill -9) and started again.
{faults["clock steps"]} times a wall clock was stepped: five minutes ahead, five behind, or right again.
{faults["asked again"]} times a request was asked again: its answer died with its router.
{report.credits} times an operator took something off: one bill, the bills of the day, or one budget, in turn (`router usage adjust`,
`router budget adjust`). The command was killed {faults["commands killed"]} times meanwhile, and run again with its `--id`.
Each is one event of usage and one of the audit: {"yes" if report.is_audited else "NO"}.
Each costs 0.005 to 0.015, and 0.01 is expected. Reservations are of {RESERVATION_MS // 1000} s, slices of {SLICE_PERCENT} %.
Answers: {answers}.

| {" | ".join(COLUMNS)} |
|---|{"---:|" * (len(COLUMNS) - 1)}
{table}

*Difference*: settled less the sum over the identities of the usage events. *A slice each*: what may be overspent. *Reserved*: what is
reserved when every result is metered and the leases of the dead have expired. Made by `python -m tests.rigs.faults.budget_run`.

## Settled and silver

Then `router usage ingest` took the usage stream into tables on the disk (Spark, `{MASTER}`), and `router usage reconcile` compared them:
{report.silver.says}.

| check | verdict |
|---|---|
{checks}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=60_000)
    given = BudgetRun(requests=parser.parse_args().requests)
    report = asyncio.run(run(given))
    print(render(given, report), end="")
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
