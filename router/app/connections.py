"""The connections of one router, by what may fill them.

    main        pulls, JetStream's API, what is stored, answers, and the listener
    workers     heartbeats, and what workers gave up
    providers   invocations, and what providers answer and stream

Who may publish on the subjects of the last two decides how much comes, and how fast. When it is more than the server
holds for a client, the server cuts that client off as a slow consumer. Then one of these is cut off and comes back, and
everything else goes on: nothing is redelivered, no call is lost, the subscriptions do not stop.

The listener stays with the subscriptions. It hears a request before the subscription pulls it, because both come over one connection, and
the rendezvous of answers stands on that order: over two, a retry's answer went to the inbox of the try before it. It would
also cost a second read for each request that comes alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from msgspec import Struct

from router.app.connect import connect_by
from router.config import NatsConfig
from router.delivery.connection import Connection
from router.observability import Metrics, events, logs

log = logs.logger(__name__)

AGAIN_S = 0.05  # between two attempts to connect: what passes meanwhile is not heard


class Connections(Struct, frozen=True):
    """A connection that is not needed is `main` itself."""

    main: Connection
    workers: Connection
    providers: Connection

    @classmethod
    def of_one(cls, connection: Connection) -> Connections:
        """For who has one connection alone."""
        return cls(connection, connection, connection)

    @property
    def lost(self) -> list[str]:
        """The names of those that are not connected."""
        return [name for name in self.__struct_fields__ if not getattr(self, name).is_connected]


class ConnectionOpener:
    """Opens the connections beside `main`."""

    def __init__(self, config: NatsConfig, metrics: Metrics, is_stopping: Callable[[], bool]) -> None:
        self._config = config
        self._metrics = metrics
        self._is_stopping = is_stopping

    @asynccontextmanager
    async def open(self, main: Connection, *, providers: bool) -> AsyncIterator[Connections]:
        """All that are needed, as long as the block lasts. BrokerUnavailable."""
        async with AsyncExitStack() as stack:

            async def beside(name: str) -> Connection:
                return await stack.enter_async_context(self._opened(name))

            yield Connections(
                main,
                await beside("workers"),
                await beside("providers") if providers else main,
            )

    @asynccontextmanager
    async def _opened(self, name: str) -> AsyncIterator[Connection]:
        named = self._config.model_copy(update={"name": f"{self._config.name}-{name}"})
        connection = await connect_by(named, on_lost=partial(self._lost, name), on_back=partial(self._back, name), again_s=AGAIN_S)
        connection.on_fault = lambda exc: log.error(events.BROKER_ERROR, connection=name, exc_info=exc)
        try:
            yield connection
        finally:
            await _closed(connection.close)

    async def _lost(self, name: str) -> None:
        if not self._is_stopping():
            log.warning(events.BROKER_DISCONNECTED, connection=name)

    async def _back(self, name: str) -> None:
        self._metrics.reconnects.value += 1
        log.info(events.BROKER_RECONNECTED, connection=name)


async def _closed(close: Callable[[], Awaitable[None]]) -> None:
    try:
        await close()
    except Exception as exc:  # the end must not fail on a connection that is gone already
        log.debug(events.BROKER_ERROR, error=type(exc).__name__)
