"""Dead letters of the bus: the format of all dead letters, on `{prefix}.dlq.{original_subject}`.

A dead letter keeps any payload that the bus accepts: a message of a work queue leaves its stream once its dead letter is stored.
"""

from __future__ import annotations

from collections.abc import Callable

from router.bus.settings import BusSettings
from router.bus.subjects import letters_of
from router.contracts.dead_letter import build_dead_letter
from router.contracts.envelope import extract_envelope_ids
from router.core.clock import now_ms
from router.core.message import Effect, Message
from router.core.outcome import Fault


def build_dead_letter_writer(settings: BusSettings, max_bytes: int) -> Callable[[Message, str, Fault], Effect]:
    """Build the function that writes a consumer's dead letters. `max_bytes`: the connection's max_payload."""

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
