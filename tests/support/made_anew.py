"""Makes a stream that was deleted a moment ago: nats-server refuses that as long as it removes the old one's directory."""

from collections.abc import Awaitable, Callable
from typing import Any

from router.core.errors import BrokerRefused
from router.delivery import topology
from router.delivery.api import JetStream
from router.delivery.topology import StreamSpec, Topology
from tests.support.waiting import until

STORE_NOT_CREATED = 10049  # JetStream's number


async def create_streams(jetstream: JetStream, *streams: StreamSpec) -> None:
    await _try_again(lambda: topology.create(jetstream, Topology(streams)))


async def create_stream(jetstream: JetStream, name: str, config: dict[str, Any]) -> None:
    await _try_again(lambda: jetstream.ask(f"STREAM.CREATE.{name}", {"name": name, **config}))


async def _try_again(create: Callable[[], Awaitable[object]]) -> None:
    async def is_created() -> bool:
        try:
            await create()
        except BrokerRefused as exc:
            if exc.err_code != STORE_NOT_CREATED:
                raise
            return False
        return True

    await until(is_created, within_s=60.0, what="the streams are there")
