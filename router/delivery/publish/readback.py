"""Store a message in a `no_ack` stream, and confirm it by reading it back.

    publish -> an ephemeral push consumer (headers only) delivers the stored copy -> stored, at that
    sequence
       └──────── not within the duplicate window: publish again ────────┘

A `no_ack` stream sends no publish ack, so only the stored message proves that it is stored. If the
stream dropped it as a duplicate, it is published again after the duplicate window, and the stream's
handler recognises it by its id. Publishing again is safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from router.core.clock import steady
from router.core.errors import BrokerRefused, BrokerUnavailable, Poison
from router.core.message import parse_ack_subject
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import head_of
from router.delivery.wire.frames import Headers

MSG_ID = "Nats-Msg-Id"
SUBSCRIPTION_CHECK_S = 0.25
HEARTBEAT_S = 0.5
SILENCE_LIMIT_S = 1.25  # then the ephemeral consumer is gone, or its server hangs
INACTIVE_THRESHOLD_S = 10  # then the server removes a consumer without a subscriber
WINDOW_SLACK_S = 0.1  # beyond the duplicate window, before the message is published again


class ConfirmByReadback:
    """One subject of one stream. Durations are seconds."""

    def __init__(
        self, jetstream: JetStream, stream: str, subject: str, *, window_s: float, within_s: float
    ) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._subject = subject
        self._again_s = window_s + WINDOW_SLACK_S
        self._within_s = within_s
        self._wanted: dict[str, asyncio.Future[int]] = {}  # by message id
        self._heard_at = 0.0
        self._is_subscribed = asyncio.Event()

    @property
    def is_hearing(self) -> bool:
        return self._is_subscribed.is_set()

    async def run(self) -> None:
        """A supervised child: receive the stored copies."""
        while True:
            if self._jetstream.connection.is_connected:
                await self._hear()
            await asyncio.sleep(SUBSCRIPTION_CHECK_S)

    async def _hear(self) -> None:
        """Receive copies until the consumer may be gone. The next one has another inbox, so the
        server removes this one.
        """
        connection = self._jetstream.connection
        reconnects, inbox = connection.reconnect_count, connection.new_inbox()
        sid = await connection.subscribe_direct(inbox, self._on_copy)
        try:
            if await self._follow(inbox):
                self._is_subscribed.set()
            while (  # noqa: ASYNC110 - three causes
                self._is_subscribed.is_set()
                and reconnects == connection.reconnect_count
                and not self._is_silent
            ):
                await asyncio.sleep(SUBSCRIPTION_CHECK_S)
        finally:
            self._is_subscribed.clear()
            await connection.unsubscribe(sid)

    async def store(self, data: bytes, headers: Mapping[str, str]) -> int:
        """The sequence of the message, whose id is in `headers`. Raises BrokerUnavailable (not
        known in time), Poison (too large).
        """
        msg_id, head = headers[MSG_ID], head_of(headers)
        # the server would close the connection for it
        if len(head) + len(data) > self._jetstream.connection.max_payload:
            raise Poison("the message is larger than the connection allows")
        future = self._wanted.setdefault(msg_id, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(self._within_s):
                while not future.done():
                    await self._is_subscribed.wait()
                    self._jetstream.connection.publish_nowait(self._subject, data, "", head)
                    await asyncio.wait({future}, timeout=self._again_s)
                return future.result()
        except TimeoutError:
            raise BrokerUnavailable(
                f"{self._stream}: the message was not seen stored in time"
            ) from None
        finally:
            if self._wanted.get(msg_id) is future:
                del self._wanted[msg_id]

    @property
    def _is_silent(self) -> bool:
        return steady() - self._heard_at > SILENCE_LIMIT_S

    async def _follow(self, inbox: str) -> bool:
        config = {
            "deliver_policy": "new",
            "deliver_subject": inbox,
            "filter_subject": self._subject,
            "ack_policy": "none",
            "headers_only": True,
            "mem_storage": True,
            "num_replicas": 1,
            "idle_heartbeat": int(HEARTBEAT_S * 1e9),
            "inactive_threshold": INACTIVE_THRESHOLD_S * 1_000_000_000,
        }
        try:
            await self._jetstream.ask(
                f"CONSUMER.CREATE.{self._stream}", {"stream_name": self._stream, "config": config}
            )
        except (BrokerRefused, BrokerUnavailable):
            return False
        self._heard_at = steady()
        return True

    def _on_copy(self, subject: str, reply: str, _data: bytes, headers: Headers | None) -> None:
        self._heard_at = steady()
        future = self._wanted.get((headers or {}).get(MSG_ID, ""))
        if future is not None and subject == self._subject and not future.done():
            future.set_result(parse_ack_subject(reply).sequence)
