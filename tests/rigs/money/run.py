"""One run on one tree: all rows of a stage at once, with kills; then the wait until nothing moves,
and what there is.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from decimal import Decimal
from random import Random

from msgspec import Struct
from nats.aio.client import Client

from tests.rigs.money.asking import STREAM_MS, Asker
from tests.rigs.money.bill import Seen, make_bills
from tests.rigs.money.events import Event, read_events
from tests.rigs.money.killing import PAUSE_S, ROUND, Killing
from tests.rigs.money.ledger import read_work
from tests.rigs.money.rows import Row
from tests.rigs.money.stage import Town, on_stage
from tests.rigs.money.tricks import Play, be_honest
from tests.rigs.money.verdicts import RowResult, Settled, Side
from tests.rigs.money.watching import USAGE, UsageReader, Watch
from tests.rigs.money.worker import DURABLE, STREAM
from tests.rigs.neighbours.tree import Tree

QUIET_S = 12.0  # nothing was stored for so long
# so much later an attempt has its end, also one that only its record tells of
ENDED_S = STREAM_MS / 1000 + 15
LATEST_S = 240.0
SETTLED_S = 60.0

Tell = Callable[[str], None]


class Plan(Struct, frozen=True):
    """What a run is to be. `requests`: of all rows together; `ended_s`: after the last request
    every attempt has its end by then.
    """

    rows: Sequence[Row]
    requests: int = 20_000
    seed: int = 7
    routers: int = 2
    pause_s: tuple[float, float] = PAUSE_S
    kills: int | None = None  # at most
    order: Sequence[str] = ROUND  # of what is killed
    ended_s: float = ENDED_S
    quiet_s: float = QUIET_S


class TreeResults(Struct, frozen=True):
    """What a run on one tree was."""

    commit: str
    has_prices: bool
    rows: list[RowResult]
    kills: dict[str, int]
    requests: int
    seconds: float
    again: int  # events that the stream holds more than once


async def run(plan: Plan, tree: Tree, tell: Tell) -> TreeResults:
    """Every row; those that need other settings on a stage of their own."""
    begun = time.monotonic()
    stages: dict[str, list[Row]] = {}
    for row in plan.rows:
        stages.setdefault(json.dumps(dict(row.settings)), []).append(row)
    each = max(8, plan.requests // (2 * len(plan.rows)))
    parts = [await _run_stage(plan, tree, rows, each, tell) for rows in stages.values()]
    kills: Counter[str] = sum((Counter(part.kills) for part in parts), Counter())
    return TreeResults(
        commit=tree.commit,
        has_prices=all(part.has_prices for part in parts),
        rows=[row for part in parts for row in part.rows],
        kills=dict(kills),
        requests=sum(part.requests for part in parts),
        seconds=time.monotonic() - begun,
        again=sum(part.again for part in parts),
    )


async def _run_stage(
    plan: Plan, tree: Tree, rows: Sequence[Row], each: int, tell: Tell
) -> TreeResults:
    begun = time.monotonic()
    async with (
        on_stage(tree, routers=plan.routers, settings=rows[0].settings) as town,
        AsyncExitStack() as stack,
    ):
        has_prices = await town.put_prices()
        await _put_budgets(town, rows)
        users = ("gateway", "gateway.two", "worker.two", "witness")
        clients = [
            await town.login.connect(user, f"_INBOX_{user}.one" if user == "gateway" else None)
            for user in users
        ]
        for client in clients:
            stack.push_async_callback(client.close)
        plays = [_make_play(row, clients, plan.seed, each) for row in rows]
        tell(
            f"{tree.commit}: {len(rows)} rows, {each} requests of each tenant, prices: "
            f"{'yes' if has_prices else 'none'}"
        )
        killing = Killing(town, Random(plan.seed), plan.pause_s, plan.order, plan.kills)
        task = asyncio.create_task(killing.run())
        try:
            await asyncio.gather(
                *(_act(row, play, tell) for row, play in zip(rows, plays, strict=True))
            )
        finally:
            killing.stop()
            await task
        await _let_end(town, plan, tell)
        found, again = await _look(town, rows, plays, plan.routers)
        asked = sum(play.honest.asked + play.hostile.asked for play in plays)
        return TreeResults(
            tree.commit,
            has_prices,
            found,
            dict(killing.counts),
            asked,
            time.monotonic() - begun,
            again,
        )


def _make_play(row: Row, clients: Sequence[Client], seed: int, each: int) -> Play:
    honest, hostile, worker, witness = clients
    dice = Random(f"{seed} {row.name}")
    return Play(
        row.name, Asker(honest), Asker(hostile), worker, Watch(witness), dice, each, asyncio.Event()
    )


async def _act(row: Row, play: Play, tell: Tell) -> None:
    await asyncio.gather(row.move(play), be_honest(play))
    tell(f"{row.name}: asked")


async def _put_budgets(town: Town, rows: Sequence[Row]) -> None:
    put = [
        ("budget", "put", tenant, "--amount", str(amount), "--window", "month")
        for row in rows
        for tenant, amount in (
            (f"good-{row.name}", Decimal(1_000_000)),
            (f"bad-{row.name}", row.amount),
        )
    ]
    said = await town.operate(*put)
    failed = [one["err"] for one in said if one["status"]]
    assert not failed, failed[0]
    await asyncio.sleep(2)  # every router follows within a second


# -- until nothing moves


async def _let_end(town: Town, plan: Plan, tell: Tell) -> None:
    """Every process runs again, the dead letters are replayed, and nothing is stored any more."""
    began = time.monotonic()
    witness = await town.witness()
    try:
        await _wait_until_quiet(witness, plan.quiet_s, began + LATEST_S)
        (said,) = await town.operate(("dlq", "replay", "--all"))
        tell(f"dead letters replayed: {(said['out'] or said['err']).strip().splitlines()[-1:]}")
        await asyncio.sleep(max(0.0, began + plan.ended_s - time.monotonic()))
        await _wait_until_quiet(witness, plan.quiet_s, began + LATEST_S)
    finally:
        await witness.close()


async def _wait_until_quiet(witness: Client, quiet_s: float, latest: float) -> None:
    seen, since = await _state(witness), time.monotonic()
    while time.monotonic() < min(latest, since + quiet_s):
        await asyncio.sleep(1)
        now = await _state(witness)
        if now != seen or now[1:] != (0, 0, 0, 0):
            seen, since = now, time.monotonic()


async def _state(witness: Client) -> tuple[int, ...]:
    """The last usage event, and what the durables of assignments and results have not settled."""
    usage = await witness.jsm(timeout=30).stream_info(USAGE)
    durables = [
        await witness.jsm(timeout=30).consumer_info(*one)
        for one in ((STREAM, DURABLE), ("ROUTER_RESULTS", "router-results"))
    ]
    waiting = [
        number or 0 for info in durables for number in (info.num_pending, info.num_ack_pending)
    ]
    return (usage.state.last_seq, *waiting)


# -- what there is


async def _look(
    town: Town, rows: Sequence[Row], plays: Sequence[Play], routers: int
) -> tuple[list[RowResult], int]:
    events, again = read_events(await _read_usage(town))
    askers = [asker for play in plays for asker in (play.honest, play.hostile)]
    failed, lost, left = (
        set[str]().union(*names)
        for names in zip(*((one.failed, one.lost, one.left) for one in askers), strict=True)
    )
    tenants = [tenant for play in plays for tenant in (play.good, play.bad)]
    bills = make_bills(tenants, read_work(*town.ledgers), events, Seen(failed, lost, left))
    budgets = await _read_budgets(
        town, {tenant: (bill.booked, bill.events) for tenant, bill in bills.items()}
    )
    by_tenant: dict[str, list[Event]] = {}
    for event in events:
        by_tenant.setdefault(event.tenant, []).append(event)

    def a_side(tenant: str) -> Side:
        named = sorted(
            {event.provider for event in by_tenant.get(tenant, []) if not event.is_marked}
        )
        return Side(bills[tenant], budgets.get(tenant), named)

    return [
        RowResult(
            row.name,
            play.hostile.asked,
            a_side(play.good),
            a_side(play.bad),
            routers,
            dict(play.hostile.answers),
        )
        for row, play in zip(rows, plays, strict=True)
    ], again


async def _read_usage(town: Town) -> list[bytes]:
    """Every message of the stream, in its order."""
    witness = await town.witness()
    try:
        return await UsageReader(witness).read()
    finally:
        await witness.close()


async def _read_budgets(
    town: Town, booked: Mapping[str, tuple[Decimal, int]]
) -> dict[str, Settled]:
    """As they are once each is what is booked, or when that does not come to be."""
    deadline = time.monotonic() + SETTLED_S
    while True:
        (said,) = await town.operate(("budget", "list", "--json"))
        assert not said["status"], said["err"]
        shown = [json.loads(line, parse_float=Decimal) for line in said["out"].splitlines()]
        found = {
            one["tenant"]: Settled(
                Decimal(one["amount"]), Decimal(one["settled"]), int(one["events"])
            )
            for one in shown
        }
        is_same = all(
            tenant in found and (found[tenant].settled, found[tenant].events) == sums
            for tenant, sums in booked.items()
        )
        if is_same or time.monotonic() > deadline:
            return found
        await asyncio.sleep(3)
