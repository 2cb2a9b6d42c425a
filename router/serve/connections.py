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

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from msgspec import Struct

from router.config import NatsConfig
from router.config.connect import connect_by
from router.delivery.wire.connection import Connection
from router.process.observability import Metrics, events, logs

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
    def distinct(self) -> tuple[Connection, ...]:
        return tuple({id(one): one for one in (self.main, self.workers, self.providers)}.values())

    @property
    def lost(self) -> list[str]:
        """The names of those that are not connected."""
        return [name for name in self.__struct_fields__ if not getattr(self, name).is_connected]


class ConnectionOpener:
    """Opens the connections other than `main`."""

    def __init__(
        self, config: NatsConfig, metrics: Metrics, is_stopping: Callable[[], bool]
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._is_stopping = is_stopping

    @asynccontextmanager
    async def open(self, main: Connection, *, providers: bool) -> AsyncIterator[Connections]:
        """Open what is needed for the duration of the block. Raises BrokerUnavailable."""
        async with AsyncExitStack() as stack:

            async def open_one(name: str) -> Connection:
                return await stack.enter_async_context(self._open(name))

            yield Connections(
                main,
                await open_one("workers"),
                await open_one("providers") if providers else main,
            )

    @asynccontextmanager
    async def _open(self, name: str) -> AsyncIterator[Connection]:
        named = self._config.model_copy(update={"name": f"{self._config.name}-{name}"})
        connection = await connect_by(
            named,
            on_lost=partial(self._on_disconnected, name),
            on_back=partial(self._on_reconnected, name),
            again_s=CONNECT_RETRY_S,
        )
        connection.on_fault = lambda exc: log.error(
            events.BROKER_ERROR, connection=name, exc_info=exc
        )
        try:
            yield connection
        finally:
            await _close_quietly(connection.close)

    async def _on_disconnected(self, name: str) -> None:
        if not self._is_stopping():
            log.warning(events.BROKER_DISCONNECTED, connection=name)

    async def _on_reconnected(self, name: str) -> None:
        self._metrics.reconnects.value += 1
        log.info(events.BROKER_RECONNECTED, connection=name)


async def _close_quietly(close: Callable[[], Awaitable[None]]) -> None:
    try:
        await close()
    except Exception as exc:  # shutdown must not fail on a connection that is closed already
        log.debug(events.BROKER_ERROR, error=type(exc).__name__)
