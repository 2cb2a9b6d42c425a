"""Pulling from one durable: how much is asked for, when, and what the server's status frames say.

One long-lived inbox. Messages arrive on it under their own subject, status frames under the inbox's: that
alone tells them apart, for a client may send a header `Status: 404`. The window starts at 1, doubles while
first deliveries come, and falls to 1 when a redelivery does, so a message that kills its handler takes no
neighbours along.

    room (free places) --refill--> MSG.NEXT {batch, max_bytes, expires, idle_heartbeat} --> deliver(...) / status

A request for several messages is bounded in bytes too: what the server may send at once must stay far below its
`max_pending`, or it takes the client for a slow consumer and cuts the connection. At the limit the server ends the
request with a 409 that says how many messages it still owed. A message above the whole limit would end each request so: it
is asked for alone, without a limit in bytes. A request whose bytes are used up to the very last one ends without a
word; so the limit has a random part, or a sender could aim at it and leave the subscription waiting for its watchdog.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from secrets import randbelow

import orjson
from msgspec import Struct

from router.delivery.connection import Connection
from router.delivery.frame_parser import Headers

OnDelivery = Callable[[str, str, bytes, Headers | None], bool]  # False: an unexplained redelivery


SPREAD_BYTES = 64 * 1024  # the random part of a request's limit
OF_BYTES = frozenset({"Message Size Exceeds MaxBytes", "Batch Completed"})  # a 409 that ends a request as it should


class PullState(Struct):
    """What an operator may ask: plain figures, written by the puller only."""

    requests: int = 0
    heard_at: float = 0.0  # steady seconds of the last frame of any kind
    resets: int = 0


class Puller:
    """The pull protocol for one durable on one connection."""

    def __init__(
        self,
        connection: Connection,
        next_subject: str,
        *,
        prefetch: int,
        prefetch_bytes: int,
        expires_s: float,
        heartbeat_s: float,
        on_delivery: OnDelivery,
        free_capacity: Callable[[], int],
        on_trouble: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._next_subject = next_subject
        self._inbox = connection.new_inbox()
        self._expires_ns = int(expires_s * 1e9)
        self._heartbeat_ns = int(heartbeat_s * 1e9)
        self._prefetch = prefetch
        self._most_bytes = prefetch_bytes // 2  # of one request: a second one is made when half of the window has come
        self._on_delivery = on_delivery
        self._free_capacity = free_capacity
        self._on_trouble = on_trouble
        self._generation = 0
        self._sid = 0
        self._now = asyncio.get_running_loop().time
        self.state = PullState()
        self.window = 1
        self.outstanding = 0  # asked for, not yet delivered
        self._low = 0  # ask again when outstanding is at or below this
        self._is_growing = False  # a first delivery came since the last request
        self._is_asking = False  # `refill` is on its way
        self._is_too_large = False  # the next message is larger than a request may have bytes
        self.is_pulling = False

    async def open(self) -> None:
        self._sid = await self._connection.subscribe_direct(f"{self._inbox}.*", self._on_frame)
        self.is_pulling = True

    def pause(self) -> None:
        """Ask for nothing more; what was asked for still arrives."""
        self.is_pulling = False

    def resume(self) -> None:
        self.is_pulling = True
        self.refill()

    async def close(self) -> None:
        """Take the open requests back; what the server had sent by then has been delivered when this returns."""
        self.is_pulling = False
        await self._connection.unsubscribe(self._sid)

    def reset(self) -> None:
        """Forget what is outstanding (heartbeats missed, reconnected) and ask anew from a window of 1."""
        self._generation += 1
        self.state.resets += 1
        self.state.heard_at = self._now()
        self.outstanding = 0
        self.window, self._low, self._is_growing, self._is_too_large = 1, 0, False, False
        self.refill()

    def refill_soon(self) -> None:
        """`refill`, once for all the places that come free in this turn of the loop: one request each would cost as much as a message."""
        if self.outstanding <= self._low and not self._is_asking:
            self._is_asking = True
            asyncio.get_running_loop().call_soon(self._ask)

    def _ask(self) -> None:
        self._is_asking = False
        self.refill()

    def refill(self) -> None:
        """Ask for what there is room for, once half of the window has come."""
        if self.outstanding > self._low or not self.is_pulling or not self._connection.is_connected:
            return
        if self._is_growing:
            self._is_growing = False
            self.window = min(self.window * 2, self._prefetch)
        batch = min(self.window, self._free_capacity()) - self.outstanding
        if batch <= 0:
            return
        if self._is_too_large:
            batch, self._is_too_large = 1, False
        self.outstanding += batch
        self._low = self.window // 2
        self.state.requests += 1
        self._connection.publish_nowait(self._next_subject, self._request(batch), f"{self._inbox}.{self._generation}")

    def _request(self, batch: int) -> bytes:
        limit = {"max_bytes": self._most_bytes + randbelow(SPREAD_BYTES)} if batch > 1 else {}
        return orjson.dumps({"batch": batch, **limit, "expires": self._expires_ns, "idle_heartbeat": self._heartbeat_ns})

    # -- hot path: once a message -----------------------------------------------------------------------

    def _on_frame(self, subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        self.state.heard_at = self._now()
        if subject.startswith(self._inbox):
            self._status(subject, headers or {})
            return
        if self.outstanding:
            self.outstanding -= 1
        if self._on_delivery(subject, reply, data, headers):
            self._is_growing = True
        else:
            self.window, self._low, self._is_growing = 1, 0, False
        self.refill_soon()

    # -- status frames ------------------------------------------------------------------------------------

    def _status(self, subject: str, headers: Headers) -> None:
        status = headers.get("Status", "")
        if status == "100" or not subject.endswith(f".{self._generation}"):
            return  # a heartbeat, or the end of a request that is forgotten already
        undelivered = headers.get("Nats-Pending-Messages", "")
        self.outstanding -= min(self.outstanding, int(undelivered) if undelivered.isdigit() else self.outstanding)
        if status in ("408", "404"):
            self.refill()
        elif headers.get("Description") in OF_BYTES:
            left = headers.get("Nats-Pending-Bytes", "")
            # As much is left as was asked for: this request brought nothing, and the next one of its kind would bring nothing.
            self._is_too_large = undelivered != "0" and left.isdigit() and int(left) >= self._most_bytes
            self.refill_soon()
        else:
            # 409 has many causes (deleted, a new leader, a shutdown), told apart by text only, and a deleted consumer
            # is said once, then never again, even after it is re-created: the consumer asks the server what is true.
            self._on_trouble()
