"""The five ports of docs/reference/requirements.md#sd-ports, their methods in snake_case.

    PORT-047-001  OutboxRepository     find_unpublished, mark_published, increment_attempts
                                       PostgresOutboxAdapter
    PORT-047-002  InboxRepository      insert, mark_processed, record_error
                                       PostgresInboxAdapter
    PORT-047-003  JetStreamPublisher   publish
                                       NatsJetStreamPublisher
    PORT-047-004  JetStreamConsumer    fetch, ack, nak
                                       NatsJetStreamConsumer
    PORT-047-005  EventHandler         handle
                                       HttpEventHandler

The signatures are the specification's. An adapter may offer more (batches, a lock), never less;
what a signature lacks, a limit or a message's id, comes from settings or from `current_message`.
Repositories live as long as one transaction, the others as long as the process
(docs/reference/requirements.md#sd-35).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Protocol
from uuid import UUID

from router.core.message import Message
from router.core.outcome import PublishAck
from router.mailbox.entities import InboxMessage, Json, OutboxEvent
from router.mailbox.inbox.handling import HandlerResult


class OutboxRepository(Protocol):
    """PORT-047-001. One transaction's view of outbox_events."""

    async def find_unpublished(self) -> Sequence[OutboxEvent]: ...

    async def mark_published(self, id: UUID) -> None: ...  # noqa: A002

    async def increment_attempts(self, id: UUID, error: str) -> None: ...  # noqa: A002


class InboxRepository(Protocol):
    """PORT-047-002. `insert`: how often this message was begun, this time included; None: it was
    processed, so skip it.

    Rule: docs/reference/requirements.md#sd-15.
    """

    async def insert(self, msg: InboxMessage) -> int | None: ...

    async def mark_processed(self, id: UUID) -> None: ...  # noqa: A002

    async def record_error(self, id: UUID, error: str) -> None: ...  # noqa: A002


class JetStreamPublisher(Protocol):
    """PORT-047-003. Returns when the message is stored; raises BrokerUnavailable, BrokerRefused, or
    Poison without `Nats-Msg-Id`.
    """

    async def publish(
        self, subject: str, payload: bytes, headers: Mapping[str, str]
    ) -> PublishAck: ...


class JetStreamConsumer(Protocol):
    """PORT-047-004. At most `batch` messages; `ack` returns when the server has confirmed it. Both
    raise BrokerUnavailable.
    """

    async def fetch(self, batch: int) -> Sequence[Message]: ...

    async def ack(self, msg: Message) -> None: ...

    async def nak(self, msg: Message) -> None: ...


class EventHandler(Protocol):
    """PORT-047-005. `current_message` holds the whole message while it runs."""

    async def handle(self, event_type: str, payload: Json) -> HandlerResult: ...


current_message: ContextVar[Message] = ContextVar("current_message")
