"""Ends a process whose connection is stuck: its servers can be reached, and it does not come back.
Only a new process helps then.

    connected                                                         nothing to do: `reconnecting` bounds a server's silence
    not connected ── another connection, with the same settings read anew, logs in, and again and again ──> stuck
                  └─ it cannot either ──> the servers are unavailable: readiness says so, and no process is ended for it
    its own tasks stand still ──> stuck, wherever the servers are
    closed, though the process did not close it ──> stuck

A cause outside of this code is a file that was renewed: a certificate's authority, which is read at
the start of a process alone. Looks are counted instead of seconds, so a process that stood still
for an hour is not taken for a stuck one when it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from router.core.clock import steady
from router.core.errors import BrokerUnavailable, ConnectionStuck, Misconfigured, RouterError
from router.delivery.wire import denials
from router.delivery.wire.connection import Connection

LOOK_EVERY_S = 15.0
# in a row, so a minute at least: a way to one of many servers is tried anew within it
STUCK_LOOKS = 5
STILL_LOOKS = 2
# so long after the server enforced a limit, the end of a process is told by it
LIMIT_LATELY_S = 60.0


class ConnectionWatchdog:
    """Looks at the connections of one process until one of them is stuck."""

    def __init__(self, connections: tuple[Connection, ...]) -> None:
        # looks in a row at which another connection came through
        self._reached = dict.fromkeys(connections, 0)
        # looks in a row at which its own tasks stood still
        self._still = dict.fromkeys(connections, 0)
        self._reconnects = dict.fromkeys(connections, 0)
        self.cause: str | None = None  # why the process must end; None: it need not

    async def run(self) -> None:
        """Return when a connection is stuck; `cause` says why."""
        while self.cause is None:
            await asyncio.sleep(LOOK_EVERY_S)
            for connection in self._reached:
                await self._look(connection)

    async def _look(self, connection: Connection) -> None:
        if connection.is_closed:
            self.cause = "the connection to the broker is closed for good"
        elif await self._count_reached(connection) >= STUCK_LOOKS:
            self.cause = "the broker can be reached, and the connection to it does not come back"
        elif self._count_still(connection) >= STILL_LOOKS:
            self.cause = "the connection to the broker stands still"

    async def _count_reached(self, connection: Connection) -> int:
        was_connected = (
            connection.is_connected or self._reconnects[connection] != connection.reconnect_count
        )
        self._reconnects[connection] = connection.reconnect_count
        is_reached = not was_connected and await connection.can_open_another()
        self._reached[connection] = self._reached[connection] + 1 if is_reached else 0
        return self._reached[connection]

    def _count_still(self, connection: Connection) -> int:
        self._still[connection] = self._still[connection] + 1 if connection.is_standing_still else 0
        return self._still[connection]


@asynccontextmanager
async def watch_connections(*connections: Connection) -> AsyncIterator[ConnectionWatchdog]:
    """When one of them is stuck the block is cancelled, so that it drains. Raises ConnectionStuck
    then.

    What ends the block a moment after the server enforced a limit is told by that limit, as
    BrokerUnavailable.
    """
    body = asyncio.current_task()
    assert body is not None  # a coroutine is run by one  # noqa: S101
    watchdog = ConnectionWatchdog(connections)
    watching = asyncio.create_task(watchdog.run())
    watching.add_done_callback(lambda done: None if done.cancelled() else body.cancel())
    try:
        yield watchdog
    except asyncio.CancelledError:
        if watchdog.cause is None or body.uncancel():
            raise
        raise ConnectionStuck(watchdog.cause) from None
    except RouterError as exc:
        if isinstance(exc, Misconfigured) or (limit := _find_limit(connections)) is None:
            raise
        raise BrokerUnavailable(
            f"the server takes no more: {limit}: {denials.LIMIT_REMEDY} ({exc})"
        ) from exc
    finally:
        watching.cancel()


def _find_limit(connections: Sequence[Connection]) -> str | None:
    """The limit that was enforced lately on one of them, in the server's words."""
    since = steady() - LIMIT_LATELY_S
    return next(
        (
            connection.limit
            for connection in connections
            if connection.limit is not None and connection.limited_at >= since
        ),
        None,
    )


@asynccontextmanager
async def watch_quietly(connection: Connection) -> AsyncIterator[ConnectionWatchdog]:
    """For the connection of a user's program, which goes on: nothing is cancelled, and `cause` says
    when it is stuck.
    """
    watchdog = ConnectionWatchdog((connection,))
    watching = asyncio.create_task(watchdog.run())
    try:
        yield watchdog
    finally:
        watching.cancel()
