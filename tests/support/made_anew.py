"""Makes a stream that was deleted a moment ago: nats-server refuses that as long as it removes the
old one's directory.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from router.core.errors import BrokerRefused
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import StreamSpec, Topology
from tests.support.waiting import until

STORE_NOT_CREATED = 10049  # JetStream's number

Made = TypeVar("Made")


async def create_streams(jetstream: JetStream, *streams: StreamSpec) -> None:
    await retry_while_removed(lambda: topology.create(jetstream, Topology(streams)))


async def create_stream(jetstream: JetStream, name: str, config: dict[str, Any]) -> None:
    await retry_while_removed(
        lambda: jetstream.ask(f"STREAM.CREATE.{name}", {"name": name, **config})
    )


async def retry_while_removed(create: Callable[[], Awaitable[Made]]) -> Made:
    """What `create` returns, called again as long as the server removes what it creates."""
    made: list[Made] = []

    async def is_created() -> bool:
        try:
            made.append(await create())
        except BrokerRefused as exc:
            if exc.err_code != STORE_NOT_CREATED:
                raise
            return False
        return True

    await until(is_created, within_s=60.0, what="the streams are there")
    return made[0]
