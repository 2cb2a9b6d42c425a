"""Dead letters of the bus: one format with all others, on `{prefix}.dlq.{original_subject}`.

A letter keeps any payload that the bus itself takes: a message of a work queue is gone from its stream once its letter stands.
"""

from __future__ import annotations

from collections.abc import Callable

from router.bus.settings import BusSettings
from router.bus.subjects import letters_of
from router.clock import now_ms
from router.contracts.dead_letter import build_dead_letter
from router.contracts.envelope import extract_envelope_ids
from router.message import Effect, Message
from router.outcome import Fault


def build_dead_letter_writer(settings: BusSettings, max_bytes: int) -> Callable[[Message, str, Fault], Effect]:
    """A lane's `letter`. `max_bytes`: the connection's max_payload."""

    def write(message: Message, reason: str, fault: Fault) -> Effect:
        return build_dead_letter(
            message,
            reason,
            fault,
            node_id=settings.node_id,
            now_ms=now_ms(),
            max_bytes=max_bytes,
            payload_bytes=settings.max_payload_bytes,
            subject_pattern=letters_of(settings.stream_prefix),
            seen=extract_envelope_ids(message.data),
        )

    return write
