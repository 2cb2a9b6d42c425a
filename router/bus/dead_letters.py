"""Dead letters of the bus: the format of all dead letters, on `{prefix}.dlq.{original_subject}`.

A dead letter keeps any payload that the bus accepts: a message of a work queue leaves its stream once its dead letter is stored.
"""

from __future__ import annotations

from collections.abc import Callable

from router.bus.settings import BusSettings
from router.bus.subjects import letters_of
from router.contracts.dead_letter_writer import DeadLetterWriter
from router.contracts.envelope import extract_envelope_ids


def build_dead_letter_writer(settings: BusSettings, max_bytes: Callable[[], int]) -> DeadLetterWriter:
    """Build the writer of a consumer's dead letters. `max_bytes`: the connection's max_payload."""
    return DeadLetterWriter(
        node_id=settings.node_id,
        max_bytes=max_bytes,
        payload_bytes=settings.max_payload_bytes,
        subject_pattern=letters_of(settings.stream_prefix),
        extract=lambda message: extract_envelope_ids(message.data),
    )
