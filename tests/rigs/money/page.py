"""The page: what each row came to, as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from tests.rigs.money.rows import BY_NAME, ROWS
from tests.rigs.money.run import TreeResults
from tests.rigs.money.verdicts import (
    RowResult,
    Side,
    allowed,
    checks_of,
    has_budget,
    is_kept,
    overspent,
    says,
)


def render_page(facts: Mapping[str, str], trees: Sequence[TreeResults], seed: int) -> str:
    told = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    runs = "\n".join(_describe(tree) for tree in trees)
    return f"""# The money matrix

Made by `python -m tests.rigs.money` (`make money`); nothing here was written by hand.

{told}
- seed {seed}
{runs}

{_table(trees)}
{HOW_TO_READ}
## What did not hold

{_failures(trees)}
## What the hostile client was answered

{_answers(trees)}"""


HOW_TO_READ = """*Honest*, *hostile*: what the ledger of providers and workers says is owed, and the sum of the usage events
less that. The events are read by a reader of the rig's own: each identity once, decimals. *Calls*: that reached a provider. *Jobs*:
assignments that a worker did. *Surplus*: attempts that were recorded before their call, and whose router died before it called; it is
billed, and not part of the difference. *Slack*: how far an estimated bill may be off: one piece of each stream that was cut, and 5 %.
*Covered*: one call under the id of each assignment; it is billed beside the result where that was first, and else covers it.
*Lost*: streams that a kill cut, which are left out of owed and billed, and cost something. *Missing*, *twice*: calls without an
event, events without a call. *Marked*: events of assignments that are not known, which are no money. *Held*: costs above their bound.
*Overspent*: what is booked above the budget, of what a slice an instance allows. Settled is what `router budget list` tells.
"""


def _describe(tree: TreeResults) -> str:
    kills = (
        ", ".join(f"{count} times a {what}" for what, count in sorted(tree.kills.items()))
        or "nothing"
    )
    kept = sum(is_kept(row) for row in tree.rows)
    prices = "with prices" if tree.has_prices else "which knows no prices"
    return (
        f"- {tree.commit}, {prices}: {tree.requests:,} requests in {tree.seconds:.0f} s, "
        f"killed {kills}; "
        f"{kept} of {len(tree.rows)} rows hold; the stream holds {tree.again} events again"
    )


COLUMNS = (
    "row",
    "by",
    "honest owed",
    "difference",
    "hostile jobs",
    "calls",
    "owed",
    "difference",
    "slack",
    "covered",
    "surplus",
    "lost",
)
MORE = ("missing", "twice", "marked", "held", "settled − booked", "overspent", "holds")


def _table(trees: Sequence[TreeResults]) -> str:
    columns = (*COLUMNS, *MORE)
    lines = [f"| {' | '.join(columns)} |", f"|---|---|{'---:|' * (len(columns) - 3)}---|"]
    for row in ROWS:
        for place, tree in enumerate(trees):
            lines += [_line(place, tree, found) for found in tree.rows if found.row == row.name]
    return "\n".join(lines) + "\n"


def _line(place: int, tree: TreeResults, found: RowResult) -> str:
    row = BY_NAME[found.row]
    honest, hostile = found.honest.bill, found.hostile.bill
    title = (
        (row.name, row.by) if place == 0 else (f"· {tree.commit}", "found" if row.is_found else "")
    )
    owed = (
        _money(honest.owed),
        _money(honest.difference),
        str(hostile.jobs),
        str(hostile.calls),
        _money(hostile.owed),
    )
    apart = (
        _money(hostile.difference),
        _money(hostile.slack),
        _money(hostile.covered),
        _money(honest.surplus + hostile.surplus),
        str(hostile.lost),
    )
    counts = [
        str(honest.missing + hostile.missing),
        str(honest.twice + hostile.twice),
        str(honest.marked + hostile.marked),
    ]
    settled = " / ".join(_unsettled(side) for side in (found.honest, found.hostile))
    spent = f"{_money(overspent(found))} of {_money(allowed(found))}" if has_budget(row) else ""
    return (
        "| "
        f"{' | '.join((*title, *owed, *apart, *counts, str(hostile.held), settled, spent, says(found)))} "
        "|"
    )


def _unsettled(side: Side) -> str:
    return "?" if side.budget is None else _money(side.budget.settled - side.bill.booked)


def _money(value: Decimal) -> str:
    return f"{value.normalize():f}" if value else "0"


def _failures(trees: Sequence[TreeResults]) -> str:
    told = [
        f"- {found.row}, {tree.commit}: {_broken(found)}"
        for tree in trees
        for found in tree.rows
        if not is_kept(found)
    ]
    return "\n".join(told or ["Everything held."]) + "\n"


def _broken(found: RowResult) -> str:
    return "; ".join(f"not so: {what}" for what, kept in checks_of(found).items() if not kept)


def _answers(trees: Sequence[TreeResults]) -> str:
    lines = ["| row | does | answers |", "|---|---|---|"]
    for row in ROWS:
        for place, tree in enumerate(trees):
            for found in tree.rows:
                if found.row == row.name:
                    told = ", ".join(
                        f"{count} {code}" for code, count in sorted(found.answers.items())
                    )
                    lines.append(
                        f"| {row.name if place == 0 else f'· {tree.commit}'} | "
                        f"{row.does if place == 0 else ''} | {told} |"
                    )
    return "\n".join(lines) + "\n"
