"""The stream and the subject pattern of the dead letters of each system; their format is the same.

Rule: docs/reference/contracts.md#dead-letter-streams.

router    ROUTER_DLQ          {original_subject}.dlq, or as the settings say
bus       {prefix}-dlq        {prefix}.dlq.{original_subject}
inbox     {CONTEXT}_DLQ       {context}.dlq.{original_subject}
agents    MESHFORGE_FAILED    meshforge.failed.{original_subject}
"""

from __future__ import annotations

from msgspec import Struct

from router.agents.topology import DEAD_LETTER_SUBJECT
from router.bus.subjects import letters_of
from router.config import Settings
from router.mailbox.inbox.dead_letters import letters_stream, pattern_of

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
        "bus": DeadLetterStream(f"{prefix}-dlq", letters_of(prefix)),
        "inbox": DeadLetterStream(letters_stream(context).name, pattern_of(context)),
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
