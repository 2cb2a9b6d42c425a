"""An agent's dead letters: the format of all of them, on `meshforge.failed.{original_subject}` (docs/reference/requirements.md#mf-8).

A dead letter keeps any payload that an agent takes: a command is gone from its work queue once its dead letter stands.
"""

from __future__ import annotations

from router.agents.envelope import read_envelope
from router.agents.topology import DEAD_LETTER_SUBJECT
from router.contracts.codec import MAX_PAYLOAD_BYTES
from router.contracts.dead_letter_writer import DeadLetterWriter
from router.contracts.malformed import Malformed
from router.core.message import Message
from router.delivery.wire.connection import Connection


def build_dead_letter_writer(agent: str, connection: Connection, payload_bytes: int = MAX_PAYLOAD_BYTES) -> DeadLetterWriter:
    return DeadLetterWriter(
        node_id=agent,
        max_bytes=lambda: connection.max_payload,
        payload_bytes=payload_bytes,
        subject_pattern=DEAD_LETTER_SUBJECT,
        extract=lambda message: _extract_ids(message, payload_bytes),
    )


def _extract_ids(message: Message, payload_bytes: int) -> dict[str, str]:
    try:
        return {"trace_id": read_envelope(message, payload_bytes).trace_id}
    except Malformed:
        return {}
