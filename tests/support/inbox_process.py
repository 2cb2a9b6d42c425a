"""`router inbox consume` as a process that is told where to die; its handler; and its control, the
literal order of steps.

An event whose payload says so is poison. `python -m tests.support.inbox_process` is the control
instead: the specification's step order taken literally (insert the row, call the handler; a row
that is there means skip), which loses what it began.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from router.config import load
from router.core.crashpoints import crashpoint
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.mailbox.inbox.consumer import NatsJetStreamConsumer
from router.mailbox.inbox.event import InboxEvent, read_event
from router.mailbox.inbox.handling import HandlerResult
from router.mailbox.postgres import Database, DatabaseConfig, Driver
from tests.support.kills import KilledProcess

HANDLER = "tests.support.inbox_process:handle"
INSERT = (
    "INSERT INTO inbox_messages (message_id, subject, attempts) VALUES (%s, %s, 1) ON CONFLICT "
    "DO NOTHING"
)
EFFECT = "INSERT INTO effects (message_id) VALUES (%s)"


async def handle(connection: Driver, event: InboxEvent) -> HandlerResult:
    if event.payload.get("poison"):
        return HandlerResult.POISON
    await connection.execute(EFFECT, (event.message_id,))
    return HandlerResult.PROCESSED


class InboxProcess(KilledProcess):
    """`handler`: the options that name one. `settings`: more of them, by dotted name."""

    announces = "inbox.ready"

    def __init__(
        self,
        nats_url: str,
        dsn: str,
        *handler: str,
        ack_wait_ms: int = 1000,
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        places = {"nats.url": nats_url, "mailbox.dsn": dsn, "http.port": 0}
        super().__init__(
            {**places, "inbox.ack_wait_ms": ack_wait_ms, "log.level": "error", **settings}
        )
        self._command: Sequence[str] = ("router", "inbox", "consume", *(handler or (HANDLER,)))

    def _arguments(self) -> Sequence[str]:
        return self._command


class LiteralInbox(InboxProcess):
    """The control."""

    def __init__(self, nats_url: str, dsn: str) -> None:
        super().__init__(nats_url, dsn)
        self._command = ("tests.support.inbox_process",)


async def literally() -> None:
    settings = load().settings
    assert settings.mailbox.dsn is not None
    connection = await connect({"servers": list(settings.nats.url)})
    consumer = NatsJetStreamConsumer(JetStream(connection), "VIBESPRO_EVENTS", "sea__from_vibespro")
    print(json.dumps({"event": InboxProcess.announces}), flush=True)
    async with Database(DatabaseConfig(settings.mailbox.dsn.get_secret_value())) as database:
        while True:
            for message in await consumer.fetch(10):
                event = read_event(message)
                assert isinstance(event, InboxEvent)
                async with database.transaction() as session:
                    is_new = await session.execute(INSERT, (event.message_id, event.subject))
                crashpoint("inbox_received")
                if is_new:
                    async with database.transaction() as session:
                        await session.execute(EFFECT, (event.message_id,))
                await consumer.ack(message)


if __name__ == "__main__":
    asyncio.run(literally())
