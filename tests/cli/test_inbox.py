"""`router inbox`: consume in a process of its own, until told to stop; and what is left."""

import asyncio
import urllib.request

import pytest
from nats.aio.client import Client

from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.delivery.wire.topology import Topology
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox.handling import HandlerResult
from router.mailbox.postgres import Driver
from tests.support.broker import Broker
from tests.support.cli import call_command_async, router
from tests.support.inbox import (
    EFFECTS,
    EVENTS,
    an_id,
    an_inbox,
    effects,
    is_settled,
    publish,
    record,
)
from tests.support.inbox_process import HANDLER, InboxProcess
from tests.support.postgres import Postgres, rows
from tests.support.waiting import until


@pytest.fixture
async def dsn(postgres: Postgres) -> str:
    made = await postgres.database()
    await rows(made, EFFECTS)
    return made


@pytest.mark.slow  # a process starts and ends
async def test_consume_handles_what_comes_and_ends_well_when_told(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """SD-35; T17: messages in flight are finished, the status is 0; its pages say what it did."""
    connection = await connect({"servers": [broker.url]})
    await topology.create(JetStream(connection), Topology((EVENTS,)))
    await connection.close()
    process = await asyncio.to_thread(InboxProcess(broker.url, dsn, HANDLER).start)
    assert process.ready["event"] == "inbox.ready"
    await publish(nc, range(50))
    await until(lambda: is_settled(nc))
    page = await asyncio.to_thread(_page, f"{process.ready['http']}/metrics")
    ready = await asyncio.to_thread(_page, f"{process.ready['http']}/readyz")
    assert await asyncio.to_thread(process.terminate) == 0
    assert sorted(await effects(dsn)) == sorted(an_id(number) for number in range(50))
    assert 'router_inbox_handled_total{code="processed"} 50' in page
    assert '"ready":true' in ready


async def test_its_dead_letters_are_read_and_sent_again_like_all_others(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """SD-16, SD-20: what a mended handler takes has its effect."""
    async with an_inbox(broker.url, dsn, refuse):
        await publish(nc, [1001])
        await until(lambda: is_settled(nc))
    (letter,) = (
        await call_command_async("dlq", "list", "--of", "inbox", "--json", "--nats-url", broker.url)
    ).lines
    assert (letter["msg_id"], letter["reason"], letter["code"]) == (
        an_id(1001),
        "processing_error",
        "handler_poison",
    )
    async with an_inbox(broker.url, dsn, record):
        replayed = await call_command_async(
            "dlq", "replay", "--all", "--of", "inbox", "--nats-url", broker.url
        )
        assert replayed.status == 0, replayed.err
        await until(lambda: effects(dsn))
    assert (
        await call_command_async("dlq", "list", "--of", "inbox", "--json", "--nats-url", broker.url)
    ).out == ""


async def test_backlog_counts_what_is_not_processed(dsn: str) -> None:
    """SD-18: QRY-051."""
    await rows(
        dsn,
        "INSERT INTO inbox_messages VALUES (%s, 's', '2025-12-28T22:00:00Z', NULL, 1)",
        an_id(1),
    )
    await rows(
        dsn,
        "INSERT INTO inbox_messages VALUES (%s, 's', now(), NULL, 1), (%s, 's', now(), now(), 1)",
        an_id(2),
        an_id(3),
    )
    ended = await call_command_async(
        "inbox", "backlog", "--json", environ={"ROUTER_MAILBOX__DSN": dsn}
    )
    assert (ended.status, ended.json) == (
        0,
        {"context": "sea", "count": 2, "oldest_at": "2025-12-28T22:00:00+00:00"},
    )
    named = await call_command_async(
        "inbox", "backlog", "--json", "--context", "dock", environ={"ROUTER_MAILBOX__DSN": dsn}
    )
    assert (named.status, named.json["context"]) == (0, "dock")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("inbox", "consume"), "inbox.handler.url"),
        (("inbox", "consume", "nothing"), "MODULE:FUNCTION"),
        (("inbox", "consume", "no.such:thing"), "cannot be loaded"),
        (("inbox", "consume", "a:b", "--url", "http://x/"), "one handler"),
    ],
)
async def test_what_cannot_be_consumed_is_said(
    dsn: str, arguments: tuple[str, ...], said: str
) -> None:
    ended = await call_command_async(*arguments, environ={"ROUTER_MAILBOX__DSN": dsn})
    assert (ended.status, said in ended.err) == (2, True)


async def test_without_tables_it_says_how_to_make_them(postgres: Postgres) -> None:
    ended = await asyncio.to_thread(
        router, "inbox", "consume", HANDLER, environ={"ROUTER_MAILBOX__DSN": postgres.dsn()}
    )
    assert (ended.status, "router mailbox migrate" in ended.err) == (2, True)


async def test_a_connection_string_is_never_printed() -> None:
    dsn = "postgresql://u:secret@127.0.0.1:1/none"
    ended = await call_command_async("inbox", "backlog", environ={"ROUTER_MAILBOX__DSN": dsn})
    assert (ended.status, "secret" in ended.out + ended.err) == (3, False)


async def refuse(connection: Driver, event: InboxEvent) -> HandlerResult:
    return HandlerResult.POISON


def _page(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        return str(answer.read().decode())
