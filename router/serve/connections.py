"""The connections of one router, separated by who can fill them with traffic.

    main        pulls, JetStream's API, publishes, answers, and the listener
    workers     heartbeats, and dead letters of workers
    providers   invocations, and the responses and streams of providers

Other programs decide how many messages arrive on the last two. When more arrive than the server
buffers for a client, it disconnects that client as a slow consumer. Then only that connection
reconnects: no message is redelivered, no call is lost, and the consumers go on.

The listener shares the connection with the consumers: it must receive a request before the consumer
pulls it, and only one connection guarantees that order. Over two connections the answer to a retry
went to the inbox of the first try, and each single request cost a second read.
"""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from router.config import NatsConfig
from router.config.connect import connect_by
from router.delivery.wire.connection import Connection
from router.process.observability import Metrics, events, logs
from router.shell.host import HeldConnection, Told

log = logs.logger(__name__)

CONNECT_RETRY_S = 0.05  # between two attempts to connect: messages in between are lost


class Connections(Struct, frozen=True):
    """Where a separate connection is not needed, it is `main`."""

    main: Connection
    workers: Connection
    providers: Connection

    @classmethod
    def from_one(cls, connection: Connection) -> Connections:
        """All three roles on one connection."""
        return cls(connection, connection, connection)

    @property
    def lost(self) -> list[str]:
        """The names of those that are not connected."""
        return [name for name in self.__struct_fields__ if not getattr(self, name).is_connected]


def list_others(config: NatsConfig, metrics: Metrics, *, providers: bool) -> list[HeldConnection]:
    """The connections other than `main`, in the order of `Connections`."""

    def count() -> None:
        metrics.reconnects.value += 1

    names = ("workers", "providers") if providers else ("workers",)
    return [HeldConnection(partial(_connect, config, name), name, on_back=count) for name in names]


async def _connect(config: NatsConfig, name: str, *, on_lost: Told, on_back: Told) -> Connection:
    named = config.model_copy(update={"name": f"{config.name}-{name}"})
    connection = await connect_by(named, on_lost=on_lost, on_back=on_back, again_s=CONNECT_RETRY_S)
    connection.on_fault = lambda exc: log.error(events.BROKER_ERROR, connection=name, exc_info=exc)
    return connection
