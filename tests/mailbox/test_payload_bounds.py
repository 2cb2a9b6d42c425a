"""The setting `max_payload_bytes` holds where events and commands come in: the inbox, an agent."""

from nats.aio.client import Client

from router.agents.batch import BatchItem, read_item
from router.agents.commands import make_places
from router.config import load
from router.core.outcome import Dead
from router.mailbox.inbox.http_handler import HttpEventHandler
from router.mailbox.ports import current_message
from router.mailbox.settings import HandlerConfig
from tests.support.agents import a_message as a_command
from tests.support.broker import Broker
from tests.support.inbox import (
    a_message,
    an_id,
    an_inbox,
    effects,
    is_settled,
    nowhere,
    publish,
    read_dead_letters,
    record,
)
from tests.support.waiting import until

SETTINGS = load(None, {"max_payload_bytes": 2 * 1024 * 1024, "max_depth": 7}, {}).settings


async def test_an_inbox_refuses_what_is_larger_or_deeper_than_the_settings_say(
    broker: Broker, nc: Client, dsn: str
) -> None:
    async with an_inbox(broker.url, dsn, record, max_payload_bytes=1000, max_depth=3):
        await publish(nc, [1], {"text": "x" * 2000})
        await publish(nc, [2], [[[[1]]]])
        await publish(nc, [3], {"text": "x" * 500})
        await until(lambda: is_settled(nc))
    assert await effects(dsn) == [an_id(3)]
    assert sorted(str(letter["message_id"]) for letter in await read_dead_letters(nc)) == [
        an_id(1),
        an_id(2),
    ]


async def test_the_ports_handler_reads_with_the_same_bounds() -> None:
    handler = HttpEventHandler(HandlerConfig(url=nowhere()), max_payload_bytes=10)
    current_message.set(a_message(b'{"text": "more than ten"}'))
    assert await handler.handle("vibe_created", {}) == "poison"
    await handler.close()


def test_an_agent_takes_what_the_settings_say() -> None:
    places = make_places(SETTINGS)
    message = a_command(key="k", payload={"text": "x" * (1024 * 1024)})
    assert isinstance(read_item(message, places.max_payload_bytes), BatchItem)
    assert isinstance(read_item(message, 1024), Dead)
