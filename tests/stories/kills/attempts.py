"""Several routers, some of them killed: how often is each failing message begun, and how many dead
letters does it have?

Every message fails. A router that is killed takes along what it had not yet told: an attempt that
was counted and cut off before its handler ran, and a first delivery that was never begun. Both
count as attempts; so a message has its limit or, for each kill that met it, one attempt fewer,
never one more. It also takes along violations and answers that it was about to send.
"""

import asyncio
import random
import tempfile
from collections import Counter
from pathlib import Path

from nats.aio.client import Client

from router.config import Settings
from tests.support.failing_router import BEGUN, VIOLATED, FailingRouter, seen
from tests.support.kills import AT_RANDOM_S, KillCount, KillPlan, a_server
from tests.support.router_streams import a_result, headers_of
from tests.support.service import names_for, settings_for
from tests.support.stories import (
    Inboxes,
    a_request,
    has_acked_all,
    has_messages,
    make_topology,
    read_dead_letters,
)
from tests.support.waiting import until

CONSUMERS = ("decide", "results", "acks")
FAILING = {
    "tenants_allowed": "acme",
    "acks.enabled": "true",
    **{f"{name}.backoff_ms": "50,100,200" for name in CONSUMERS},
}
ACK_WAIT = {f"{name}.ack_wait_ms": 500 for name in CONSUMERS}
AT_ONCE = 250  # messages that are published together


async def count_attempts(consumer: str, routers: int, plan: KillPlan) -> list[KillCount]:
    """The messages of one consumer on so many routers, which a file counts that every router
    appends to at once.
    """
    with tempfile.TemporaryDirectory() as home:
        witness = Path(home) / "witness"
        async with a_server() as (url, nc):
            given = {
                name.replace(".", "__"): value for name, value in {**FAILING, **ACK_WAIT}.items()
            }
            settings = settings_for(url, **given)
            await make_topology(settings)
            processes = [
                FailingRouter({**names_for(url, "t"), **FAILING, **ACK_WAIT}, witness)
                for _ in range(routers)
            ]
            inboxes = await Inboxes.under(nc, "t")
            try:
                await asyncio.gather(*(asyncio.to_thread(process.start) for process in processes))
                publishing = asyncio.create_task(
                    _publish(nc, settings, inboxes, consumer, plan.messages)
                )
                await _kill(nc, settings, processes, plan)
                await publishing
                await until(
                    lambda: _is_given_up(nc, settings, consumer, plan.messages),
                    within_s=120,
                    what="every dead letter",
                )
            finally:
                for process in processes:
                    process.remove()
            dead = [letter["source"] for letter in await read_dead_letters(nc, settings)]
        begun, violations = (
            Counter(seen(witness, BEGUN).values()),
            Counter(seen(witness, VIOLATED).values()),
        )
    answers = Counter(inboxes.counts.values())
    limit = getattr(settings, consumer).max_attempts
    return [
        KillCount(
            f"{consumer}, one of {routers} routers",
            kills=len(plan.ends),
            sent=plan.messages,
            stored=len(dead),
            lost=max(0, plan.messages - len(dead)),
            double=max(0, len(dead) - plan.messages),
            wrong={
                "begun too often": sum(count for times, count in begun.items() if times > limit),
                "dead letter says otherwise": sum(source["attempts"] != limit for source in dead),
                "more than one violation": _count_repeated(violations),
                "no violation at all": int(not violations),
                "more than one answer": _count_repeated(answers),
            },
            beside={
                "limit": limit,
                "begun as often": begun[limit],
                "begun less": plan.messages - begun[limit],
                "of these unconfirmed": sum(
                    source.get("attempts_unconfirmed", 0) for source in dead
                ),
                "violations": violations[1],
                "answers": answers[1] if answers else None,
            },
        )
    ]


def _count_repeated(times: Counter[int]) -> int:
    return sum(count for often, count in times.items() if often > 1)


async def _kill(
    nc: Client, settings: Settings, routers: list[FailingRouter], plan: KillPlan
) -> None:
    """One after the other, each while the messages are under way; it is started again."""
    kills = len(plan.ends)
    for number in range(kills):
        least = plan.messages * number // (kills + 1)
        await until(
            lambda least=least: has_messages(nc, settings.streams.dlq.name, least), within_s=120
        )
        # the kill hits any point of the work, not always the one behind the condition
        await asyncio.sleep(random.uniform(0, AT_RANDOM_S))
        router = routers[number % len(routers)]
        router.kill()
        await asyncio.to_thread(router.start)


async def _publish(
    nc: Client, settings: Settings, inboxes: Inboxes, consumer: str, messages: int
) -> None:
    """In portions, each when all that was before has its dead letter. An empty `trace_id` header is
    one violation.
    """
    for first in range(0, messages, AT_ONCE):
        for number in range(first, min(first + AT_ONCE, messages)):
            await _publish_one(nc, settings, inboxes, consumer, number)
        await nc.flush()
        await until(
            lambda first=first: has_messages(nc, settings.streams.dlq.name, first), within_s=120
        )


async def _publish_one(
    nc: Client, settings: Settings, inboxes: Inboxes, consumer: str, number: int
) -> None:
    if consumer == "decide":
        headers = headers_of(number, trace_id="", **{"Reply-To": inboxes.of(number)})
        await nc.publish(settings.decide.subject, a_request(number), headers=headers)
        return
    body = a_result(
        number, tenant_id="other", status="accepted" if consumer == "acks" else "success"
    )
    await nc.jetstream().publish(
        getattr(settings, consumer).subject,
        body,
        headers=headers_of(number, tenant_id="other", trace_id=""),
    )


async def _is_given_up(nc: Client, settings: Settings, consumer: str, messages: int) -> bool:
    """Every message has its dead letter, and is acked."""
    is_settled = await has_acked_all(
        nc, getattr(settings.streams, consumer).name, getattr(settings, consumer).durable
    )
    return is_settled and await has_messages(nc, settings.streams.dlq.name, messages)
