"""How this process writes dead letters: the settings, the connection's limit and the clock, put together once for a lane."""

from __future__ import annotations

from collections.abc import Callable

from router.clock import now_ms
from router.config import Settings
from router.contracts.glimpse import glimpse
from router.contracts.letter import build_letter
from router.contracts.worker import Kind
from router.delivery.connection import Connection
from router.message import Effect, Message
from router.outcome import Fault

Write = Callable[[Message, str, Fault], Effect | None]


def letter_writer(settings: Settings, connection: Connection, kind: Kind | None = None) -> Write:
    """A lane's `letter`; `kind` is what workers send on it, None for decide requests."""

    def write(message: Message, reason: str, fault: Fault) -> Effect | None:
        if not settings.dlq.enabled:
            return None
        return build_letter(
            message,
            reason,
            fault,
            node_id=settings.node_id,
            now_ms=now_ms(),
            max_bytes=connection.max_payload,
            payload_bytes=settings.dlq.max_payload_bytes,
            include_message=settings.dlq.include_full_message,
            subject_pattern=settings.dlq.subject_pattern,
            seen=glimpse(message, kind),
        )

    return write
