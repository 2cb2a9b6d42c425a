"""Builds the function that writes the dead letters of one consumer, from the settings, the limit of
the connection and the clock.
"""

from __future__ import annotations

from collections.abc import Callable

from router.contracts.dead_letter_writer import DeadLetterWriter
from router.contracts.extract import extract_ids
from router.contracts.worker import MessageType
from router.core.message import Effect, Message
from router.core.outcome import Fault
from router.serve.app_context import AppContext

WriteDeadLetter = Callable[[Message, str, Fault], Effect | None]


def build_dead_letter_writer(
    context: AppContext,
    kind: MessageType | None = None,
    on_omitted: Callable[[Message], None] | None = None,
) -> WriteDeadLetter:
    """The dead letter function of a subscription; `kind`: the messages that workers send on it,
    None for decide requests.

    A tenant that holds more than its share of the stream gets dead letters without payloads. When
    the stream is nearly full it gets none, if its callers receive a reply about each failure: then
    `on_omitted` is called with the message.
    """
    settings, shares = context.settings, context.dead_letter_shares
    writer = DeadLetterWriter(
        node_id=settings.node_id,
        max_bytes=lambda: context.connection.max_payload,
        payload_bytes=settings.dlq.max_payload_bytes,
        include_message=settings.dlq.include_full_message,
        subject_pattern=settings.dlq.subject_pattern,
        extract=lambda message: extract_ids(message, kind),
    )

    def write(message: Message, reason: str, fault: Fault) -> Effect | None:
        if not settings.dlq.enabled:
            return None
        seen = writer.extract(message)
        tenant = seen.get("tenant_id", "")
        is_over = shares.is_over(tenant)
        if is_over and shares.is_nearly_full and on_omitted is not None:
            on_omitted(message)
            return None
        letter = writer.write(message, reason, fault, seen=seen, is_whole=not is_over)
        if is_over:
            context.metrics.dead_letters_truncated.value += 1
        shares.add(tenant, len(letter.data))
        return letter

    return write
