"""Try the order on every version, level and number of writers; print the table, and write it as a
page.
"""

import argparse
import asyncio
from pathlib import Path
from time import monotonic

from bench.machine import facts
from tests.mailbox.order.run import LEVELS, OrderKind, OrderTally, try_order
from tests.rigs.neighbours.tree import find_own_tree
from tests.support.broker import Broker
from tests.support.postgres import HOMES, Postgres
from tests.support.result_pages import format_table

KEPT = ("date", "command", "CPU", "memory", "system", "Python", "nats-server")
COLUMNS = (
    "PostgreSQL",
    "isolation",
    "writers",
    "interleavings",
    "crossed",
    "done again",
    "events",
    "lost",
    "double",
    "wrong",
)
HOW_TO_READ = """An interleaving is two or three transactions that lock one aggregate, add one to three events each and commit; whose
step is next is drawn, so that they overlap. They lock by an `UPDATE`, by `SELECT … FOR UPDATE` or by `pg_advisory_xact_lock`, and add by
`outbox.add`, by `outbox.add` with a time of the last hour, by plain SQL with random ids, or by one statement that updates and inserts.
Eight interleavings run at once; meanwhile two relays share the outbox and read it by pages of three rows. A ledger notes who had the
lock, in that order; the stream is compared with it, aggregate by aggregate. *Crossed*: a transaction had the lock before one that began
earlier. *Done again*: transactions that PostgreSQL ended (`40001`) and that were tried again. *Wrong*: interleavings whose events were
published in another order than that of the lock. Control: relays that read by `(occurred_at, id)`, as the specified columns alone
allow. `make order` writes this page.
"""


def main() -> None:
    options = _read_options()
    found = asyncio.run(_try_all(options))
    if options.write is not None:
        Path(options.write).write_text(_render(found, options))
    if any(not one.is_exact and not one.kind.is_control for one in found):
        raise SystemExit(1)


async def _try_all(options: argparse.Namespace) -> list[OrderTally]:
    found: list[OrderTally] = []
    with Broker() as broker:
        for major in options.majors:
            with Postgres(major) as postgres:
                for kind in _kinds(major, options):
                    found.append(await _try(kind, options, postgres, broker))
    return sorted(found, key=lambda one: one.kind.is_control)


async def _try(
    kind: OrderKind, options: argparse.Namespace, postgres: Postgres, broker: Broker
) -> OrderTally:
    began = monotonic()
    many = options.interleavings // 10 if kind.is_control else options.interleavings
    tally = await try_order(kind, many, options.seed, postgres, broker)
    print(f"{monotonic() - began:.0f} s", tally, flush=True)
    return tally


def _kinds(major: int, options: argparse.Namespace) -> list[OrderKind]:
    whole = [OrderKind(major, level, writers) for level in LEVELS for writers in (2, 3)]
    return (
        [*whole, *(OrderKind(major, level, 3, is_control=True) for level in LEVELS)]
        if options.control
        else whole
    )


def _render(found: list[OrderTally], options: argparse.Namespace) -> str:
    told = facts(
        f"python -m tests.mailbox.order --interleavings {options.interleavings} --seed "
        f"{options.seed}"
    )
    lines = "\n".join(f"- {name}: {told[name]}" for name in KEPT)
    table = format_table(COLUMNS, [_row(one) for one in found], texts=2)
    return (
        f"# The order of an outbox\n\n{lines}\n- commit: {find_own_tree().commit}\n\n{table}\n"
        f"{HOW_TO_READ}"
    )


def _row(one: OrderTally) -> tuple[object, ...]:
    level = one.kind.level.lower() + (", control" if one.kind.is_control else "")
    return (
        one.kind.major,
        level,
        one.kind.writers,
        one.interleavings,
        one.crossed,
        one.retries,
        one.events,
        one.lost,
        one.double,
        one.wrong,
    )


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mailbox.order", description=__doc__)
    parser.add_argument(
        "--interleavings",
        type=int,
        default=1000,
        help="of each kind; a tenth of them for a control",
    )
    parser.add_argument("--majors", type=int, nargs="+", default=sorted(HOMES))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--control",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="relays that read by time and id, too",
    )
    parser.add_argument("--write", metavar="PAGE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
