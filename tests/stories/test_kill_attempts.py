"""Several routers, some of them killed: no failing message is begun more often than allowed, and each has one dead letter.

A router that is killed takes along what it had not yet said: an attempt that was counted and cut off before its handler ran,
and a first delivery that was never begun. Both count as attempts; so a message has its limit or, for each kill that met it,
one attempt fewer, never one more.
"""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.circle import a_result, headers_of
from tests.support.failing_router import BEGUN, VIOLATED, FailingRouter, seen
from tests.support.kills import a_server, publish
from tests.support.service import names_for, settings_for
from tests.support.stories import Inboxes, a_request, letters, make_topology
from tests.support.waiting import until

LANES = ("decide", "results", "acks")
FAILING = {"tenants_allowed": "acme", "acks.enabled": "true", **{f"{lane}.backoff_ms": "50,100,200" for lane in LANES}}
ACK_WAIT = {f"{lane}.ack_wait_ms": 500 for lane in LANES}
TOGETHER = 250  # published at once
HEADS = (
    *("lane", "routers", "kills", "messages", "limit", "dead letters", "`attempts` in them", "most begun", "begun as often", "begun less"),
    *("of these unconfirmed", "violations", "more than one", "answers", "more than one"),
)
NOTE = (
    "Every message fails. `begun less`: a router was killed between the counting of an attempt and its beginning; `of these"
    " unconfirmed`: or with a first delivery that it may never have begun, which the dead letter says (`attempts_unconfirmed`)."
    " Counted by a file to which every router appends at once. A killed router takes along the violations and answers that it"
    " was about to write. Acknowledgements are waited for 500 ms, pauses are 50, 100 and 200 ms; all other settings are the defaults."
)


class Plan(NamedTuple):
    lane: str
    routers: int
    kills: int
    messages: int


class Row(NamedTuple):
    """What was seen; every Counter is of messages."""

    plan: Plan
    limit: int
    attempts: Counter[int]
    begun: Counter[int]
    unconfirmed: int
    violations: Counter[int]
    answers: Counter[int]

    @property
    def is_exact(self) -> bool:
        is_limit = self.attempts == {self.limit: self.plan.messages} and max(self.begun) <= self.limit
        return is_limit and max(self.violations) == 1 and (not self.answers or max(self.answers) == 1)

    def cells(self) -> tuple[object, ...]:
        attempts, less = ", ".join(map(str, self.attempts)), self.plan.messages - self.begun[self.limit]
        seen = (max(self.begun), self.begun[self.limit], less, self.unconfirmed, *_once(self.violations), *_once(self.answers))
        lane, routers, kills, messages = self.plan
        return (lane, routers, kills, messages, self.limit, self.attempts.total(), attempts, *seen)


def _once(times: Counter[int]) -> tuple[object, object]:
    """How many messages have one, and how many have more."""
    return (times[1], sum(count for often, count in times.items() if often > 1)) if times else ("-", "-")


@pytest.mark.timeout(120)
@pytest.mark.slow  # three processes, and one more for the one that is killed
async def test_a_router_that_is_killed_gives_no_message_another_attempt(tmp_path: Path) -> None:
    row = await _story(Plan("results", routers=3, kills=1, messages=60), tmp_path / "witness")
    assert row.is_exact, row


@pytest.mark.matrix
@pytest.mark.slow  # six thousand messages, and thirty-six kills
async def test_a_thousand_failing_messages_on_three_and_on_four_routers(tmp_path: Path) -> None:
    """The whole table; it is kept in bench/results."""
    plans = [Plan(lane, routers, kills=6, messages=1_000) for routers in (3, 4) for lane in LANES]
    rows = [await _story(plan, tmp_path / f"{plan.lane}-{plan.routers}") for plan in plans]
    lines = [HEADS, ("---", *["---:"] * (len(HEADS) - 1)), *(row.cells() for row in rows)]
    table = "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"
    print(table)
    publish("kill_attempts", "A failing message has its attempts and no more, whatever is killed", table, NOTE)
    assert all(row.is_exact for row in rows), rows


async def _story(plan: Plan, witness: Path) -> Row:
    async with a_server() as (url, nc):
        given = {name.replace(".", "__"): value for name, value in {**FAILING, **ACK_WAIT}.items()}
        settings = settings_for(url, **given)
        await make_topology(settings)
        routers = [FailingRouter({**names_for(url, "t"), **FAILING, **ACK_WAIT}, witness) for _ in range(plan.routers)]
        inboxes = await Inboxes.under(nc, "t")
        try:
            await asyncio.gather(*(asyncio.to_thread(router.start) for router in routers))
            feeding = asyncio.create_task(_publish(nc, settings, inboxes, plan))
            await _kill(nc, settings, routers, plan)
            await feeding
            await until(lambda: _given_up(nc, settings, plan), within_s=120, what="a dead letter for every message")
        finally:
            for router in routers:
                router.remove()
        found = [letter["source"] for letter in await letters(nc, settings)]
    return Row(
        plan,
        getattr(settings, plan.lane).max_attempts,
        Counter(source["attempts"] for source in found),
        Counter(seen(witness, BEGUN).values()),
        sum(source.get("attempts_unconfirmed", 0) for source in found),
        Counter(seen(witness, VIOLATED).values()),
        Counter(inboxes.counts.values()),
    )


async def _kill(nc: Client, settings: Settings, routers: list[FailingRouter], plan: Plan) -> None:
    """One after the other, each while the messages are under way; it is started again."""
    for number in range(plan.kills):
        share = plan.messages * number // (plan.kills + 1)
        await until(lambda share=share: _count(nc, settings, share), within_s=120)
        await asyncio.sleep(random.uniform(0, 0.1))  # anywhere in what it does
        router = routers[number % len(routers)]
        router.kill()
        await asyncio.to_thread(router.start)


async def _publish(nc: Client, settings: Settings, inboxes: Inboxes, plan: Plan) -> None:
    """In portions, each when most of what was before has its dead letter. An empty `trace_id` header is one violation."""
    for first in range(0, plan.messages, TOGETHER):
        for number in range(first, min(first + TOGETHER, plan.messages)):
            await _publish_one(nc, settings, inboxes, plan.lane, number)
        await nc.flush()
        await until(lambda first=first: _count(nc, settings, first), within_s=120)


async def _publish_one(nc: Client, settings: Settings, inboxes: Inboxes, lane: str, number: int) -> None:
    if lane == "decide":
        headers = headers_of(number, trace_id="", **{"Reply-To": inboxes.of(number)})
        await nc.publish(settings.decide.subject, a_request(number), headers=headers)
        return
    body = a_result(number, tenant_id="other", status="accepted" if lane == "acks" else "success")
    await nc.jetstream().publish(getattr(settings, lane).subject, body, headers=headers_of(number, tenant_id="other", trace_id=""))


async def _count(nc: Client, settings: Settings, least: int) -> bool:
    return (await nc.jsm().stream_info(settings.streams.dlq.name)).state.messages >= least


async def _given_up(nc: Client, settings: Settings, plan: Plan) -> bool:
    """Every message has its dead letter, and is acknowledged."""
    config = getattr(settings, plan.lane)
    info = await nc.jsm().consumer_info(getattr(settings.streams, plan.lane).name, config.durable)
    is_settled = (info.num_pending, info.num_ack_pending) == (0, 0)
    return is_settled and await _count(nc, settings, plan.messages)
