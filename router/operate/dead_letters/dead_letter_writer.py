"""Where the dead letters of each system stand, and the function that writes those of one consumer."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from router.agents.topology import DEAD_LETTER_SUBJECT
from router.bus.subjects import dead_letters_of
from router.config import Settings
from router.contracts.dead_letter import DeadLetterWriter
from router.contracts.extract import extract_ids
from router.contracts.worker import MessageType
from router.core.message import Effect, Message
from router.core.outcome import Fault
from router.mailbox.inbox.dead_letters import dead_letters_stream, pattern_of
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
        seen = writer.extract(message) if fault.ids is None else fault.ids
        tenant = seen.get("tenant_id", "")
        is_over = shares.is_over(tenant)
        if is_over and shares.is_nearly_full and on_omitted is not None:
            on_omitted(message)
            return None
        dead_letter = writer.write(message, reason, fault, seen=seen, is_whole=not is_over)
        if is_over:
            context.metrics.dead_letters_truncated.value += 1
        shares.add(tenant, len(dead_letter.data))
        return dead_letter

    return write


# -- The stream and the subject pattern of the dead letters of each system; their format is the
# same.
#
# Rule: docs/reference/contracts.md#dead-letter-streams.
#
# router    ROUTER_DLQ          {original_subject}.dlq, or as the settings say
# bus       {prefix}-dlq        {prefix}.dlq.{original_subject}
# inbox     {CONTEXT}_DLQ       {context}.dlq.{original_subject}
# agents    MESHFORGE_FAILED    meshforge.failed.{original_subject}


SYSTEMS = ("router", "bus", "inbox", "agents")


class DeadLetterStream(Struct, frozen=True):
    """`pattern`: over `{original_subject}`."""

    stream: str
    pattern: str


def find_dead_letter_stream(settings: Settings, system: str) -> DeadLetterStream:
    """`system`: one of SYSTEMS."""
    prefix, context = settings.bus.stream_prefix, settings.mailbox.context
    return {
        "router": DeadLetterStream(settings.streams.dlq.name, settings.dlq.subject_pattern),
        "bus": DeadLetterStream(f"{prefix}-dlq", dead_letters_of(prefix)),
        "inbox": DeadLetterStream(dead_letters_stream(context).name, pattern_of(context)),
        "agents": DeadLetterStream(settings.agents.failed_stream, DEAD_LETTER_SUBJECT),
    }[system]


def select_dead_letters(settings: Settings, system: str) -> Settings:
    """The settings with the stream and the subject pattern of that system in place of the router's."""
    place = find_dead_letter_stream(settings, system)
    streams = settings.streams.model_copy(
        update={"dlq": settings.streams.dlq.model_copy(update={"name": place.stream})}
    )
    dlq = settings.dlq.model_copy(update={"subject_pattern": place.pattern})
    return settings.model_copy(update={"streams": streams, "dlq": dlq})
