"""Every value that the tables allow, through everything that reads them: what cannot be told is
parked, and holds nothing else back.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import orjson
import psycopg
from nats.aio.client import Client

from router.config import Settings
from router.mailbox.relay_process import RelayService
from tests.support.beside import beside
from tests.support.broker import Broker
from tests.support.cli import call_command_async
from tests.support.inbox import (
    SUBJECT,
    an_id,
    an_inbox,
    count_unprocessed,
    effects,
    publish,
    read_dead_letters,
    record,
)
from tests.support.mailbox import OutboxStream, all_published
from tests.support.observability import capture_log
from tests.support.postgres import rows
from tests.support.stories import read_page
from tests.support.waiting import until

TOO_EARLY = ("'-infinity'", "'4714-11-24 00:00:00+00 BC'", "'0001-12-31 23:59:59.999999+00 BC'")
# 8 kB that no compression makes small, so no index takes it; 300 kB of them.
LONG: Final = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 256) AS n)"
LONGER: Final = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 10000) AS n)"

# Column, value, and whether such an event can be published.
EXTREMES: Final = (
    *(("occurred_at", value, False) for value in TOO_EARLY),
    ("occurred_at", "'0001-01-01 00:00:00+00'", True),
    ("occurred_at", "now()", True),
    ("event_version", "0", False),
    ("event_version", "-2147483648", False),
    ("event_version", "2147483647", False),
    ("event_version", "999999999", True),
    ("event_type", "''", False),
    ("event_type", "repeat('a', 128)", True),
    ("event_type", "repeat('a', 129)", False),
    ("event_type", "repeat('a', 1000000)", False),
    ("event_type", LONGER, False),
    ("event_type", r"E'a\r\nNats-Msg-Id: b'", False),
    ("event_type", "'>'", False),
    ("event_type", r"E'\U0010FFFF'", False),
    ("aggregate_type", "''", True),
    ("aggregate_type", LONG, True),
    ("aggregate_id", "''", True),
    ("aggregate_id", LONG, True),
    ("aggregate_id", "repeat('a', 1000000)", True),
    ("publish_attempts", "2147483647", True),
    ("publish_attempts", "-2147483648", True),
    ("publish_error", "repeat('e', 1000000)", True),
    ("publish_error", r"E'\x1b[2J'", True),
    ("id", "'00000000-0000-0000-0000-000000000000'", True),
    ("id", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", True),
    ("correlation_id", "'00000000-0000-0000-0000-000000000000'", True),
    ("causation_id", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", True),
    *(
        ("payload", f"'{value}'", True)
        for value in ("null", '""', "{}", "[]", "true", "-0", "1e131071", '"\\u0001"')
    ),
    ("payload", "to_jsonb(repeat(E'\\x01', 1000000))", True),  # six bytes each as text
    ("payload", "to_jsonb(repeat(E'\\x01', 1500000))", False),
    ("payload", "to_jsonb(repeat('x', 20000000))", False),
    ("payload", "(repeat('[', 6000) || repeat(']', 6000))::jsonb", True),
)
HOPELESS: Final = (
    "occurred_at",
    "event_type",
    "aggregate_type",
    "aggregate_id",
    "publish_attempts",
    "publish_error",
)


def a_row(number: int, **values: str) -> str:
    """One row, its columns as SQL; else an aggregate of its own, and nothing special."""
    columns = {
        "id": "gen_random_uuid()",
        "aggregate_type": "'order'",
        "aggregate_id": f"'{number}'",
        "event_type": "'order_paid'",
        "payload": "'{}'",
    } | values
    return (
        f"INSERT INTO outbox_events ({', '.join(columns)}) VALUES "
        f"({', '.join(columns.values())}) RETURNING id::text"
    )


async def all_extremes(dsn: str) -> tuple[set[str], set[str]]:
    """The ids of those that can be published, and of those that cannot: each value, and each beside
    an event that is hopeless anyway.
    """
    good, bad = set[str](), set[str]()
    async with await psycopg.AsyncConnection.connect(dsn) as connection:

        async def insert(number: int, ids: set[str], **values: str) -> None:
            found = await (await connection.execute(a_row(number, **values))).fetchall()  # type: ignore[call-overload]
            ids.add(found[0][0])

        for number, (column, value, can_be_published) in enumerate(EXTREMES):
            await insert(number, good if can_be_published else bad, **{column: value})
            if column in HOPELESS:
                # what is parked holds its aggregate
                another = {"aggregate_type": "'another'"} if column == "aggregate_id" else {}
                await insert(1000 + number, bad, **{"event_version": "0", column: value}, **another)
    return good, bad


@asynccontextmanager
async def a_service(broker: Broker, dsn: str, **relay: object) -> AsyncIterator[str]:
    """The whole relay process, its helpers too; where its pages are."""
    mailbox = {"dsn": dsn, "events": {"max_bytes": -1}, "relay": {"poll_most_ms": 20, **relay}}
    service = RelayService(
        Settings.model_validate(
            {"nats": {"url": broker.url}, "http": {"port": 0}, "mailbox": mailbox}
        )
    )
    bound = asyncio.get_running_loop().create_future()
    async with beside(service.run(bound.set_result)) as work:
        await asyncio.wait({work, bound}, return_when=asyncio.FIRST_COMPLETED)
        yield bound.result()
        assert not work.done(), "the relay ended"


async def parked(dsn: str) -> set[str]:
    return {
        str(one)
        for (one,) in await rows(
            dsn, "SELECT outbox_id FROM outbox_relay_state WHERE parked_at IS NOT NULL"
        )
    }


async def test_every_value_that_the_outbox_allows_is_published_or_parked(
    dsn: str, broker: Broker, place: OutboxStream
) -> None:
    good, bad = await all_extremes(dsn)
    async with a_service(broker, dsn) as pages:

        async def is_done() -> bool:
            ((left,),) = await rows(
                dsn, "SELECT count(*) FROM outbox_events WHERE published_at IS NULL"
            )
            return left == len(bad) and await parked(dsn) == bad

        await until(is_done, within_s=20, what="each row published or parked")
        assert set(await place.ids()) == good

        async def is_told() -> bool:
            text = (await read_page(pages, "/metrics"))[1]
            return (
                f'router_outbox_parked{{context="sea"}} {len(bad)}.0' in text
                and "router_outbox_backlog" in text
            )

        await until(is_told, what="the gauges tell of it")
        environ = {"ROUTER_MAILBOX__DSN": dsn}
        backlog = await call_command_async("outbox", "backlog", environ=environ)
        assert (backlog.status, f"{len(bad)} to publish" in backlog.out) == (0, True), backlog.err
        listed = await call_command_async("outbox", "parked", "--json", environ=environ)
        assert {orjson.loads(line)["id"] for line in listed.out.splitlines()} == bad, listed.err
        assert len(listed.out) < 200_000
        assert (await call_command_async("outbox", "parked", environ=environ)).status == 1
        assert (
            await call_command_async("outbox", "requeue", "--all", "--json", environ=environ)
        ).json == {"requeued": len(bad)}
        await until(is_done, within_s=20, what="each row parked again")


async def test_a_helper_that_fails_leaves_the_relay_alone(
    dsn: str, broker: Broker, place: OutboxStream
) -> None:
    """Retention that the database refuses, and gauges: each used up the restarts of the whole
    process.
    """
    refuse = (
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
        "'no'; END $$"
    )
    await rows(dsn, refuse)
    await rows(
        dsn, "CREATE TRIGGER refuse BEFORE DELETE ON outbox_publish_acks EXECUTE FUNCTION refuse()"
    )
    await rows(dsn, "DROP FUNCTION outbox_unpublished()")
    with capture_log("info") as lines:
        async with a_service(broker, dsn) as pages:
            for helper in ("gauges", "retention"):
                await until(lambda helper=helper: _is_failing(pages, helper))  # type: ignore[misc]
            await rows(dsn, a_row(1))
            await all_published(dsn)
    ends = [
        line
        for line in lines.all()
        if line["event"] in ("child.crashed", "child.restarting", "supervisor.gave_up")
    ]
    assert ends == []


async def _is_failing(pages: str, helper: str) -> bool:
    return (
        f'router_helper_failing{{helper="{helper}"}} 1.0' in (await read_page(pages, "/metrics"))[1]
    )


# -- the inbox -------------------------------------------------------------------------------------

INBOX_EXTREMES: Final = (
    *(
        ("received_at", value)
        for value in (
            *TOO_EARLY,
            "'infinity'",
            "'294276-12-31 23:59:59.999999+00'",
            "'10000-01-01 00:00:00+00'",
        )
    ),
    ("subject", "''"),
    ("subject", "'>'"),
    ("subject", "'a b'"),
    ("subject", r"E'vibespro.event.x.v1\r\nPUB y 0'"),
    ("subject", "'another.event.x.v1'"),  # no subject of the stream's
    ("subject", LONGER),
    ("attempts", "2147483647"),
    ("attempts", "-2147483648"),
    ("last_error", "repeat('e', 1000000)"),
    ("last_error", r"E'\x1b[2J'"),
)
OFTEN: Final = {"sweep_ms": 50, "stranded_after_ms": 0}


async def all_inbox_extremes(dsn: str) -> int:
    """Rows that were received and never processed; how many."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        for number, (column, value) in enumerate(INBOX_EXTREMES):
            columns = {
                "subject": f"'{SUBJECT}'",
                "received_at": "now() - interval '1 hour'",
                "attempts": "1",
                column: value,
            }
            columns["message_id"] = f"'{an_id(number)}'"
            query = (
                f"INSERT INTO inbox_messages ({', '.join(columns)}) VALUES "
                f"({', '.join(columns.values())})"
            )
            await connection.execute(query)  # type: ignore[call-overload]
    return len(INBOX_EXTREMES)


async def test_every_value_that_the_inbox_allows_is_told_and_swept(
    dsn: str, broker: Broker, nc: Client
) -> None:
    count = await all_inbox_extremes(dsn)
    environ = {"ROUTER_MAILBOX__DSN": dsn}
    backlog = await call_command_async("inbox", "backlog", environ=environ)
    assert (backlog.status, f"{count} not processed" in backlog.out) == (0, True), backlog.err
    assert (await call_command_async("inbox", "backlog", "--json", environ=environ)).json[
        "count"
    ] == count
    async with an_inbox(broker.url, dsn, record, scan=OFTEN):

        async def is_swept() -> bool:
            return await count_unprocessed(dsn) == 0

        await until(is_swept, what="each row has its letter")
    assert sorted(str(letter["message_id"]) for letter in await read_dead_letters(nc)) == sorted(
        an_id(number) for number in range(count)
    )


async def test_a_row_that_was_begun_as_often_as_can_be_counted_stops_no_other(
    dsn: str, broker: Broker, nc: Client
) -> None:
    """One more attempt is no number of the column's: the inbox paused for it, and for all."""
    await rows(
        dsn,
        "INSERT INTO inbox_messages (message_id, subject, attempts) VALUES (%s, %s, 2147483647)",
        an_id(0),
        SUBJECT,
    )
    async with an_inbox(broker.url, dsn, record):
        await publish(nc, [0, 1])

        async def is_handled() -> bool:
            return await count_unprocessed(dsn) == 0 and len(await effects(dsn)) == 2

        await until(is_handled)
