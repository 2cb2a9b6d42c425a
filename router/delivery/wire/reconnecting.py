"""How a connection notices that its server is gone, and finds another one: nats-py's client, with a
bound on every step. And when to ask again what a server refused.

    silent   nothing came after three PINGs, and a full socket took nothing ─┐
    deaf     messages come, no PONG for a minute, and nothing is taken     ──┤
    left     `leave_server`: the server answers, its JetStream does not    ──┼──> close, at most half a second
    closed   by the server, or by an error                                 ──┘      └──> another server: connect, login, flush
                                                                                            └ one fails, or is slow: the next

nats-py alone waits 45 seconds and more for a machine that vanished, may come back to the same
server, and ends its search for good at an error that is neither an OSError nor its own. `stuck`
watches what is written here, and ends the process if it does not hold.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import nats.errors
from nats.aio.client import Client

from router.core.cancellation import preserve_cancellation
from router.core.clock import Clock, steady
from router.delivery.wire.frames import DirectTransport
from router.delivery.wire.ping_schedule import PingSchedule, TransportProgress

PING_EVERY_S = 2.0  # a tick of `ping_schedule`
LOGIN_STEPS = 3  # of a login, each within the connect timeout: INFO, TLS, CONNECT and PONG
AVOID_S = 2.0  # so long a server that was left is refused: another address may lead to it
LEAVE_FIRST_S, LEAVE_MOST_S = 10.0, 60.0  # between two servers that are left
STILL_AFTER_S = 30.0  # longer than all steps of one attempt


class ReconnectingClient(Client):
    """A client of nats-py that never stops looking for a server."""

    def __init__(self) -> None:
        super().__init__()
        self._lost: Any = None  # the server of the pool that was lost: it is tried last
        # the id of the server that was left, and until when it is refused
        self._avoided: tuple[str, float] = ("", 0.0)
        self._left_at = float("-inf")
        self._leave_pause = LEAVE_FIRST_S
        # when the newest attempt to connect, or to see that the server is there, began
        self._step_at = steady()

    def on_reconnect_error(self, exc: Exception) -> None:
        """An error that nats-py does not expect while it looks for a server; the search goes on."""

    @property
    def address(self) -> str:
        """The server that it is connected to, without a login; empty while there is none."""
        url = self.connected_url
        return f"nats://{url.hostname}:{url.port}" if url is not None else ""

    @property
    def is_standing_still(self) -> bool:
        """Whether it has stopped looking for a server, or looking after the one it has, though it
        is not closed.
        """
        limit_s = STILL_AFTER_S + (self.options["ping_interval"] if self.is_connected else 0.0)
        return not self.is_closed and steady() - self._step_at > limit_s

    async def leave_server(self) -> bool:
        """Go to another server, because this one is cut off from the others; returns whether it
        did.

        Every consumer of a connection notices the same, so the first one leaves, and the others
        find a connection that is young. If the cause is with all servers, leaving helps nothing:
        the pauses between two grow.
        """
        now = steady()
        if not self.is_connected or now - self._left_at < self._leave_pause:
            return False
        is_again = now - self._left_at < 2 * LEAVE_MOST_S
        self._leave_pause = min(2 * self._leave_pause, LEAVE_MOST_S) if is_again else LEAVE_FIRST_S
        self._left_at = now
        if self._server_info.get("cluster"):
            self._avoided = (self._server_info.get("server_id", ""), now + AVOID_S)
        await self.force_reconnect()
        return True

    # -- overridden --------------------------------------------------------------------------------

    async def _ping_interval(self) -> None:
        # nats-py's counts PONGs alone: one that waits behind a megabyte on a slow link is no sign
        # of a dead server.
        schedule, pongs = PingSchedule(self.options["max_outstanding_pings"]), self._pongs_received
        while True:
            await asyncio.sleep(self.options["ping_interval"])
            self._step_at = steady()
            if not self.is_connected:
                continue
            has_pong, pongs = self._pongs_received != pongs, self._pongs_received
            is_due = schedule.is_due(self._take_progress(has_pong=has_pong))
            if schedule.is_gone:
                await self._process_op_err(nats.errors.StaleConnectionError())
                return
            if is_due:
                await self._send_ping()

    def _take_progress(self, *, has_pong: bool) -> TransportProgress:
        if isinstance(self._transport, DirectTransport):
            return self._transport.take_progress(has_pong=has_pong)
        return TransportProgress(
            has_heard=has_pong, has_drained=False, has_written=True, has_pong=has_pong
        )

    async def _attempt_reconnect(self) -> None:
        self._lost, self._step_at = self._current_server, steady()
        while True:
            try:
                return await super()._attempt_reconnect()
            except Exception as exc:
                # of any kind: at one that nats-py does not expect, it would end its search
                self._status = Client.RECONNECTING
                self.on_reconnect_error(exc)
                await asyncio.sleep(self.options["reconnect_time_wait"])

    async def _select_next_server(self) -> None:
        if self._lost is not None:
            self._server_pool.sort(key=lambda server: server is self._lost)
            self._lost = None
        await super()._select_next_server()

    # nats-py calls this and the next one while it looks for a server. If they lost a cancellation,
    # it would go on looking after a close.
    async def _connect_to_server(self, s: Any) -> None:
        self._step_at = steady()
        await preserve_cancellation(super()._connect_to_server(s))

    async def _process_connect_init(self) -> None:
        for earlier in (self._reading_task, self._ping_interval_task, self._flusher_task):
            if earlier is not None:
                # of an attempt that failed late: it would read this connection's bytes, or count
                # its PINGs
                earlier.cancel()
        async with asyncio.timeout(LOGIN_STEPS * self.options["connect_timeout"]):
            await preserve_cancellation(super()._process_connect_init())

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        server_id, until = self._avoided
        if initial_connection and info.get("server_id") == server_id and steady() < until:
            raise nats.errors.Error("it leads to the server that was left")
        await super()._process_info(info, initial_connection)


# -- When to try again what the server refused: pauses that grow, with a random part, so that a
# cluster without a quorum is not flooded.


class RetryTimer:
    """When to try again: at once, then after pauses that double from `first` to `most`, each up to
    a half shorter at random.
    """

    def __init__(self, first: float, most: float, clock: Clock = steady) -> None:
        self._first = first
        self._most = most
        self._clock = clock
        self._pause = first
        self._due_at = float("-inf")

    @property
    def is_due(self) -> bool:
        return self._clock() >= self._due_at

    def delay(self) -> None:
        """An attempt begins: the next one is due after a pause, which is longer each time."""
        self._due_at = self._clock() + self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        self._pause = min(self._pause * 2, self._most)

    def reset(self) -> None:
        """An attempt succeeded: pauses are short again, and so is the one that is under way."""
        self._pause = self._first
        self._due_at = min(self._due_at, self._clock() + self._first)
