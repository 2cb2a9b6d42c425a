"""What a handler said of its failure is kept where an operator looks for it: with the row, and with
the dead letter.
"""

import psycopg
import pytest
from nats.aio.client import Client

from router.core.errors import Poison
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox.transactional_strategy import Handler
from router.mailbox.postgres import Driver
from tests.support.broker import Broker
from tests.support.inbox import an_inbox, is_settled, publish, read_dead_letters, row_of
from tests.support.waiting import until

SECRET = "postgresql://me:geheim@db/sea"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raising(exc: Exception) -> Handler:
    async def handle(connection: Driver, event: InboxEvent) -> None:
        raise exc

    return handle


@pytest.mark.parametrize(
    ("exc", "reason", "text"),
    [
        (Poison("order 17 has no customer"), "processing_error", "order 17 has no customer"),
        (ValueError("no stock in Ulm"), "maxdeliver_exhausted", "ValueError: no stock in Ulm"),
        (ValueError(), "maxdeliver_exhausted", "ValueError"),
        (
            ValueError(f"cannot reach {SECRET}"),
            "maxdeliver_exhausted",
            "ValueError: cannot reach postgresql://***@db/sea",
        ),
        (Unprintable(), "maxdeliver_exhausted", "Unprintable"),
    ],
    ids=["poison", "failure", "without a text", "with a login", "that cannot be told"],
)
async def test_the_text_of_a_failure_stands_in_the_row_and_in_the_dead_letter(
    broker: Broker, nc: Client, dsn: str, *, exc: Exception, reason: str, text: str
) -> None:
    async with an_inbox(broker.url, dsn, raising(exc), max_deliver=1):
        await publish(nc, [1])
        await until(lambda: is_settled(nc))
    (letter,) = await read_dead_letters(nc)
    assert await row_of(dsn, 1) == (True, 1, f"{reason}: {text}")
    assert (letter["reason"], letter["last_error"]["message"]) == (reason, text)  # type: ignore[index]


async def test_a_text_that_no_column_takes_is_kept_without_what_it_cannot_hold(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """U+0000 and half a surrogate pair would be refused, and the row be written again and again; a
    megabyte is cut.
    """
    async with an_inbox(
        broker.url, dsn, raising(ValueError("a\x00b\ud800" + "x" * 1_000_000)), max_deliver=1
    ):
        await publish(nc, [1])
        await until(lambda: is_settled(nc))
    error = str((await row_of(dsn, 1))[2])
    assert error.startswith("maxdeliver_exhausted: ValueError: a")
    assert len(error) < 700


async def test_what_the_database_refused_names_its_kind_and_constraint_and_no_value(
    broker: Broker, nc: Client, dsn: str
) -> None:
    async def handle(connection: Driver, event: InboxEvent) -> None:
        await connection.execute(
            "INSERT INTO inbox_messages (message_id, subject) VALUES (%s, 'geheim')",
            (event.message_id,),
        )

    async with an_inbox(broker.url, dsn, handle, max_deliver=1):
        await publish(nc, [1])
        await until(lambda: is_settled(nc))
    error = str((await row_of(dsn, 1))[2])
    assert psycopg.errors.UniqueViolation.sqlstate in error
    assert "inbox_messages_pkey" in error
    assert "geheim" not in error
