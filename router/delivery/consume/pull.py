"""Pull messages from one durable, and read the server's status frames.

    free_capacity --refill--> MSG.NEXT {batch, max_bytes, expires, idle_heartbeat} -->
    on_delivery(...) / status

Messages and status frames arrive on one inbox. Messages have their own subject, status frames the
inbox's; headers do not tell them apart, because a client may send a header `Status: 404`. The
window starts at 1, doubles while first deliveries come, and falls to 1 at an unexplained
redelivery, so a message that kills the process costs few other messages an attempt.

A request for several messages is limited in bytes: if the server sends more than `max_pending`, it
takes the client for a slow consumer and closes the connection. At the limit the server ends the
request with a 409 and the number of messages that it still owes. A message above the limit would
end each request in this way, so it is pulled alone, without a limit. If the messages use up the
limit to the last byte, the server sends no 409; so the limit has a random part, or a sender could
stall the subscription on purpose.

A request that ended without a message is followed by one with fewer heartbeats, and with still
fewer where something else tells of a lost request (`lost_is_told`): those of fifty idle instances
were a third of what they cost a server, which looks at all waiting requests of a durable for each
heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from secrets import randbelow

import orjson
from msgspec import Struct

from router.core.clock import steady
from router.delivery.wire.connection import Connection
from router.delivery.wire.frames import Headers

OnDelivery = Callable[[str, str, bytes, Headers | None], bool]  # False: an unexplained redelivery


SPREAD_BYTES = 64 * 1024  # the random part of a request's limit
# the least between two heartbeats while no message comes; the election of a leader takes longer
# than two of them
IDLE_HEARTBEAT_S = 2.5
RARE_HEARTBEAT_S = 7.5  # the same where elections are told, or where there are none
# a window of twice this, or more, is asked for within a chunk of bytes: else the server has nothing
# to send meanwhile
EARLY_FROM = 32
FRESH_S = 1.0  # a frame that is no older proves that the durable was there when a request was made
# 409s at the end of a request
OF_BYTES = frozenset({"Message Size Exceeds MaxBytes", "Batch Completed"})


class PullLimits(Struct, frozen=True, kw_only=True):
    """What a puller may ask for. Durations are seconds."""

    prefetch: int
    prefetch_bytes: int
    expires: float
    heartbeat: float


class PullState(Struct):
    """Figures for operators, written by the puller only."""

    requests: int = 0
    heard_at: float = 0.0  # steady seconds of the last frame of any kind
    # of the last request that no fresh frame came before: it is lost if it raced with the durable's
    # deletion
    doubted_at: float = 0.0
    resets: int = 0


class Puller:
    """The pull protocol for one durable on one connection."""

    def __init__(
        self,
        connection: Connection,
        next_subject: str,
        limits: PullLimits,
        *,
        on_delivery: OnDelivery,
        free_capacity: Callable[[], int],
        on_trouble: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._next_subject = next_subject
        self._inbox = connection.new_inbox()
        self._status_subjects = self._inbox.encode()
        self._expires_ns = int(limits.expires * 1e9)
        self._busy_heartbeat_s = limits.heartbeat
        self._most_heartbeat_s = max(limits.heartbeat, limits.expires / 2)
        # something other than missing heartbeats tells that the durable's leader is gone
        self.lost_is_told = False
        self.heartbeat_s = limits.heartbeat  # of the newest request
        self._is_idle = False  # the last request brought no message
        self._batch = 0  # of the newest request
        self._prefetch = limits.prefetch
        # Of one request: there can be two, because `refill` asks when half of the window has come.
        self._most_bytes = limits.prefetch_bytes // 2
        self._on_delivery = on_delivery
        self._free_capacity = free_capacity
        self._on_trouble = on_trouble
        self._generation = 0
        self._sid = 0
        self._now = steady
        self.state = PullState()
        self.window = 1
        self.outstanding = 0  # messages that were asked for and not delivered yet
        self._low = 0  # ask again when `outstanding` is at or below this
        self._is_growing = False  # a first delivery came since the last request
        self._is_asking = False  # a call of `refill` is scheduled
        self._is_too_large = False  # the next message is larger than the limit of a request
        self.is_pulling = False

    async def open(self) -> None:
        self._sid = await self._connection.subscribe_raw(f"{self._inbox}.*", self._on_frame)
        self.is_pulling = True

    def pause(self) -> None:
        """Send no more requests; messages of the open ones still arrive."""
        self.is_pulling = False

    def resume(self) -> None:
        self.is_pulling = True
        self.refill()

    @property
    def is_doubtful(self) -> bool:
        """Whether the open request may be lost: the server has sent nothing since. While it is idle
        it sends heartbeats.
        """
        return self.state.heard_at <= self.state.doubted_at

    async def close(self) -> None:
        """Cancel the open requests. Messages that the server had sent by then are delivered before
        this returns.
        """
        self.is_pulling = False
        await self._connection.unsubscribe(self._sid)

    def reset(self) -> None:
        """After missed heartbeats or a reconnect: forget the open requests and start again with a
        window of 1.
        """
        self._generation += 1
        self.state.resets += 1
        self.state.heard_at = self.state.doubted_at = self._now()
        self.outstanding = 0
        self.window, self._low, self._is_growing, self._is_too_large, self._is_idle = (
            1,
            0,
            False,
            False,
            False,
        )
        self.refill()

    def refill_soon(self) -> None:
        """Call `refill` once for all messages settled in this turn of the event loop: a request
        costs as much as a message.
        """
        if self.outstanding <= self._low and not self._is_asking:
            self._is_asking = True
            asyncio.get_running_loop().call_soon(self._ask)

    def _ask(self) -> None:
        self._is_asking = False
        self.refill()

    def _ask_early(self) -> None:
        """Ask before the rest of the chunk is handled: it may hold the whole window, and the server
        would wait for the end of all that.
        """
        self.refill()
        if self.outstanding > self._low:
            self._connection.write_early()
        else:
            self.refill_soon()  # there was no room: there may be by then

    def refill(self) -> None:
        """Ask for as many messages as there is capacity for, once half of the window has come."""
        if self.outstanding > self._low or not self.is_pulling or not self._connection.is_connected:
            return
        if self._is_growing:
            self._is_growing = self._is_idle = False
            self.window = min(self.window * 2, self._prefetch)
        batch = min(self.window, self._free_capacity()) - self.outstanding
        if batch <= 0:
            return
        if self._is_too_large:
            batch, self._is_too_large = 1, False
        self.outstanding += batch
        self._batch = batch
        self._low = self.window // 2
        self.state.requests += 1
        if (now := self._now()) - self.state.heard_at > FRESH_S:
            self.state.doubted_at = now
        self._connection.publish_nowait(
            self._next_subject, self._request(batch), f"{self._inbox}.{self._generation}"
        )

    def _request(self, batch: int) -> bytes:
        limit = {"max_bytes": self._most_bytes + randbelow(SPREAD_BYTES)} if batch > 1 else {}
        self.heartbeat_s = self._choose_heartbeat()
        return orjson.dumps(
            {
                "batch": batch,
                **limit,
                "expires": self._expires_ns,
                "idle_heartbeat": int(self.heartbeat_s * 1e9),
            }
        )

    def _choose_heartbeat(self) -> float:
        if not self._is_idle:
            return self._busy_heartbeat_s
        least = RARE_HEARTBEAT_S if self.lost_is_told else IDLE_HEARTBEAT_S
        return max(self._busy_heartbeat_s, min(least, self._most_heartbeat_s))

    # -- hot path: once a message ------------------------------------------------------------------

    def _on_frame(self, subject: bytes, reply: bytes, data: bytes, head: bytes | None) -> None:
        connection = self._connection
        try:
            headers = connection.read_head(head) if head is not None else None
            self.state.heard_at = self._now()
            if subject.startswith(self._status_subjects):
                self._status(subject.decode("utf-8", "replace"), headers or {})
                return
            if self.outstanding:
                self.outstanding -= 1
            if self._on_delivery(subject.decode("utf-8", "replace"), reply.decode(), data, headers):
                self._is_growing = True
            else:
                self.window, self._low, self._is_growing = 1, 0, False
            if self.outstanding == self._low >= EARLY_FROM:
                self._ask_early()
            elif self.outstanding <= self._low and not self._is_asking:
                self.refill_soon()
        except (Exception, asyncio.CancelledError) as exc:  # the reader must go on
            connection.on_fault(exc)

    # -- status frames -----------------------------------------------------------------------------

    def _status(self, subject: str, headers: Headers) -> None:
        status = headers.get("Status", "")
        if status == "100" or not subject.endswith(f".{self._generation}"):
            return  # a heartbeat, or the end of a request before `reset`
        undelivered = headers.get("Nats-Pending-Messages", "")
        self.outstanding -= min(
            self.outstanding, int(undelivered) if undelivered.isdigit() else self.outstanding
        )
        if status in ("408", "404"):
            self._is_idle = undelivered == str(self._batch)
            self.refill()
        elif headers.get("Description") in OF_BYTES:
            left = headers.get("Nats-Pending-Bytes", "")
            # The whole limit is left: this request brought no message, and the next one would bring
            # none.
            self._is_too_large = (
                undelivered != "0" and left.isdigit() and int(left) >= self._most_bytes
            )
            self.refill_soon()
        else:
            # A 409 has many causes (deleted, a new leader, a shutdown), which only its text tells
            # apart, and the server reports a deleted consumer only once. So the consumer asks the
            # server for the durable.
            self._on_trouble()
