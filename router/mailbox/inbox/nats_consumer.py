"""PORT-047-004 as the specification words it: fetch messages, ack one, NAK one
(docs/reference/requirements.md#sd-24).

For programs with a loop of their own. The inbox itself uses `delivery.consume.consumer`, which
pulls ahead, keeps messages in flight alive, counts attempts and drains. An `ack` here costs a round
trip, and the server confirms it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from secrets import randbelow

import nats.errors
import orjson

from router.core.ack_subject import parse_ack_subject
from router.core.errors import BrokerUnavailable
from router.core.message import NO_HEADERS, Message
from router.delivery.consume.pull import OF_BYTES, SPREAD_BYTES
from router.delivery.consume.settlement import nak
from router.delivery.consume.stream_reader import MAX_BATCH_BYTES
from router.delivery.consume.subscription import ACK
from router.delivery.wire.api import JetStream
from router.delivery.wire.frame_parser import Headers

ACK_TIMEOUT_S = 5.0
NO_MORE = ("404", "408")
NOT_THERE = "it is not there, or JetStream is not"  # no responders: the server gives no words
AT_ONCE_S = 0.01  # the server's floor for a NAK that asks for no delay


class NatsJetStreamConsumer:
    """Works on an existing durable. `wait_s`: how long a fetch waits for the first message."""

    def __init__(
        self, jetstream: JetStream, stream: str, durable: str, wait_s: float = 1.0
    ) -> None:
        self._connection = jetstream.connection
        self._next = f"{jetstream.prefix}.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._name = f"the durable {durable} of {stream}"
        self._wait_s = wait_s

    async def fetch(self, batch: int) -> Sequence[Message]:
        """Return at most `batch` messages; none if none came in time. Raises BrokerUnavailable,
        also where the durable is not there.
        """
        fetched: list[Message] = []
        status: Mapping[str, str] = NO_HEADERS
        ended = asyncio.Event()
        inbox = self._connection.new_inbox()

        def hear(subject: str, ack_subject: str, data: bytes, headers: Headers | None) -> None:
            nonlocal status
            if subject == inbox:
                status = headers or NO_HEADERS
            else:
                fetched.append(_message(subject, ack_subject, data, headers))
            if subject == inbox or len(fetched) == batch:
                ended.set()

        sid = await self._connection.subscribe_direct(inbox, hear)
        try:
            most = max(MAX_BATCH_BYTES, 2 * self._connection.max_payload) + randbelow(SPREAD_BYTES)
            request = {"batch": batch, "max_bytes": most, "expires": int(self._wait_s * 1e9)}
            self._connection.publish_nowait(self._next, orjson.dumps(request), inbox)
            async with asyncio.timeout(self._wait_s + ACK_TIMEOUT_S):
                await ended.wait()
        except TimeoutError as exc:
            raise BrokerUnavailable("the server answers no pull request") from exc
        finally:
            await self._connection.unsubscribe(sid)
        if not fetched and not _is_end(status):
            raise BrokerUnavailable(
                f"no messages of {self._name}: {status.get('Status')} "
                f"{status.get('Description', NOT_THERE)}"
            )
        return fetched

    async def ack(self, msg: Message) -> None:
        """Returns when the server has confirmed it. Raises BrokerUnavailable."""
        try:
            await self._connection.request(msg.ack_subject, ACK, timeout=ACK_TIMEOUT_S)
        except (nats.errors.Error, OSError) as exc:
            raise BrokerUnavailable(
                f"an acknowledgement was not confirmed: {type(exc).__name__}"
            ) from exc

    async def nak(self, msg: Message) -> None:
        self._connection.publish_nowait(msg.ack_subject, nak(AT_ONCE_S))


def _is_end(status: Mapping[str, str]) -> bool:
    """Whether a pull request ended as it should. Any other end has a cause that waiting alone may
    not mend.
    """
    return status.get("Status") in NO_MORE or status.get("Description") in OF_BYTES


def _message(subject: str, ack_subject: str, data: bytes, headers: Headers | None) -> Message:
    at = parse_ack_subject(ack_subject)
    return Message(
        subject,
        data,
        headers or NO_HEADERS,
        at.stream,
        at.consumer,
        at.sequence,
        at.stored_ns,
        at.deliveries,
        ack_subject,
    )
