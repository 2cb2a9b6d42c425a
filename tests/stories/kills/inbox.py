"""An inbox is killed between a delivery and its ack: how many effects does each event have, and
poison how many dead letters?

One event in ten is poison. In the row's own transaction the handler is a function; over HTTP a call
comes at least once, and the service's own memory (409) is what makes one effect of it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
from nats.aio.client import Client

from router.config import Settings
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.delivery.wire.topology import Topology
from router.mailbox.inbox.rules import durable_of
from router.mailbox.settings import InboxConfig
from router.sdk.samples.service import SampleService
from tests.support.inbox import (
    EFFECTS,
    EVENTS,
    SUBJECT,
    a_service,
    an_id,
    count_unprocessed,
    effects,
    is_settled,
    read_dead_letters,
)
from tests.support.inbox_process import HANDLER, InboxProcess, LiteralInbox
from tests.support.kills import KillCount, KillPlan, a_server, count_ids, kill_and_restart
from tests.support.postgres import Postgres, rows
from tests.support.waiting import until

POISON = 10  # one in so many
ACK_WAIT_S = 1.0
ACK_WAIT_MS = int(ACK_WAIT_S * 1000)


async def count_in_transaction(postgres: Postgres, plan: KillPlan) -> list[KillCount]:
    async with _a_stream_and_database(postgres) as (url, nc, dsn):
        await _kill(InboxProcess(url, dsn, HANDLER, ack_wait_ms=ACK_WAIT_MS), plan, nc, POISON)
        row = await _count(plan, nc, dsn, await effects(dsn), POISON)
        return [_show(row, "its own transaction", None)]


async def count_over_http(postgres: Postgres, plan: KillPlan) -> list[KillCount]:
    service = SampleService()
    async with (
        _a_stream_and_database(postgres) as (url, nc, dsn),
        a_service(service.app) as handler,
    ):
        await _kill(
            InboxProcess(url, dsn, "--url", handler, ack_wait_ms=ACK_WAIT_MS), plan, nc, POISON
        )
        more_calls = service.calls.total() - plan.messages
        row = await _count(plan, nc, dsn, list(service.handled.elements()), POISON)
        return [_show(row, "HTTP", more_calls)]


async def count_in_literal_order(postgres: Postgres, plan: KillPlan) -> list[KillCount]:
    """The control: the specification's literal order of steps, which never marks a row. It is given
    no poison.
    """
    async with _a_stream_and_database(postgres) as (url, nc, dsn):
        await _kill(LiteralInbox(url, dsn), plan, nc, 0)
        row = await _count(plan, nc, dsn, await effects(dsn), 0)
        return [_show(row._replace(wrong={**row.wrong, "rows left": 0}), "literal order", None)]


async def _kill(inbox: InboxProcess, plan: KillPlan, nc: Client, poison: int) -> None:
    try:
        await kill_and_restart(inbox, plan, lambda share: _publish(nc, share, poison))
        await until(lambda: is_settled(nc), within_s=60)
    finally:
        inbox.remove()


async def _count(plan: KillPlan, nc: Client, dsn: str, found: list[str], poison: int) -> KillCount:
    """An effect of a good event, a dead letter of a bad one: each once."""
    sent = [an_id(number) for number in range(plan.messages)]
    bad = {an_id(number) for number in range(plan.messages) if _is_poison(number, poison)}
    dead = (
        Counter(str(letter["message_id"]) for letter in await read_dead_letters(nc))
        if poison
        else Counter[str]()
    )
    misplaced = len(bad & set(found)) + len(set(dead) - bad)
    wrong = {
        "effect of poison, or dead letter of none": misplaced,
        "rows left": await count_unprocessed(dsn),
    }
    return count_ids(plan, sent, [*found, *dead.elements()], wrong)._replace(
        beside={"of these dead letters": dead.total()}
    )


def _show(row: KillCount, handler: str, more_calls: int | None) -> KillCount:
    return row._replace(beside={"handler": handler, **row.beside, "more calls": more_calls})


async def _publish(nc: Client, share: range, poison: int) -> None:
    js = nc.jetstream()
    for_each = (
        (
            number,
            orjson.dumps({"poison": True, "answer": 422} if _is_poison(number, poison) else {}),
        )
        for number in share
    )
    await asyncio.gather(
        *(
            js.publish(SUBJECT, data, headers={"Nats-Msg-Id": an_id(number)})
            for number, data in for_each
        )
    )


def _is_poison(number: int, one_in: int) -> bool:
    return one_in > 0 and number % one_in == one_in - 1


@asynccontextmanager
async def _a_stream_and_database(postgres: Postgres) -> AsyncIterator[tuple[str, Client, str]]:
    """A server, a client, a database; the stream and its durable are there already."""
    async with a_server() as (url, nc):
        connection = await connect({"servers": [url]})
        await topology.create(
            JetStream(connection),
            Topology(
                (EVENTS,), (durable_of(Settings(inbox=InboxConfig(ack_wait_ms=ACK_WAIT_MS))),)
            ),
        )
        await connection.close()
        dsn = await postgres.database()
        await rows(dsn, EFFECTS)
        yield url, nc, dsn
