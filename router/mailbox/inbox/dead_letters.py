"""The inbox's dead letters: EVT-047-002 MessageDeadLettered and the message itself, in one (docs/contracts.md#inbox-dead-letters).

    subject   {context}.dlq.{original_subject}, in {CONTEXT}_DLQ; the context is the consumer's own
    id        dlq:{durable}:{message_id}: one message has one dead letter, whichever process writes it
    body      message_id, original_subject, reason, attempts; then every field of our dead letters, `message{…}` among them

Delivery stores them before it acks anything; `router dlq` reads them like all others.
"""

from __future__ import annotations

import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.contracts.dead_letter import build_dead_letter
from router.core.clock import now_ms
from router.core.message import Effect, Message
from router.core.outcome import Fault
from router.delivery.topology import StreamSpec
from router.mailbox.inbox.event import message_id_of

_OWN_FIELDS = 256  # bytes that the event's four names and values add to a dead letter, its subject and reason apart


class InboxDeadLetters(Struct, frozen=True, kw_only=True):
    """Writes the dead letters of one inbox. `max_bytes`: the connection's `max_payload`."""

    context: str
    durable: str
    node_id: str
    max_bytes: int

    def write(self, message: Message, reason: str, fault: Fault, *, is_whole: bool = True) -> Effect:
        """Write a consumer's dead letter; not whole: the message itself is gone."""
        message_id = message_id_of(message)
        letter = build_dead_letter(
            message,
            reason,
            fault,
            node_id=self.node_id,
            now_ms=now_ms(),
            max_bytes=self.max_bytes - _OWN_FIELDS - len(message.subject) - len(reason),
            include_message=is_whole,
            subject_pattern=pattern_of(self.context),
            seen={"message_id": message_id},
        )
        event = {"message_id": message_id, "original_subject": message.subject, "reason": reason, "attempts": message.attempts}
        return replace(letter, id=f"dlq:{self.durable}:{message_id}", data=orjson.dumps({**event, **orjson.loads(letter.data)}))


def pattern_of(context: str) -> str:
    """The subject of a context's dead letters, with `{original_subject}`."""
    return f"{context}.dlq.{{original_subject}}"


def letters_stream(context: str) -> StreamSpec:
    """{CONTEXT}_DLQ (docs/contracts.md#dead-letter-streams): nothing else binds these subjects, and an unbound publish would be lost."""
    return StreamSpec(
        name=f"{context.upper()}_DLQ",
        subjects=(f"{context}.dlq.>",),
        max_age=30 * 86_400.0,
        max_bytes=1024**3,
        discard="new",
        duplicate_window=3600.0,
    )
