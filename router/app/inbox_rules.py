"""Turns the settings into InboxRules. In its own file, so that commands that only query need no database driver."""

from __future__ import annotations

from router.config import Settings
from router.mailbox.inbox.rules import InboxRules


def rules_of(settings: Settings) -> InboxRules:
    """The rules of the inbox; names that are not set follow from its source."""
    context, inbox = settings.mailbox.context, settings.inbox
    return InboxRules(
        context=context,
        stream=inbox.stream or f"{inbox.source.upper()}_EVENTS",
        durable=inbox.durable or f"{context}__from_{inbox.source}",
        filter_subject=inbox.filter_subject or f"{inbox.source}.event.>",
        ack_wait=inbox.ack_wait_ms / 1000,
        max_deliver=inbox.max_deliver,
        max_ack_pending=inbox.max_ack_pending,
        nak_after=inbox.nak_after_ms / 1000 if inbox.nak_after_ms is not None else None,
        handler_timeout=inbox.handler.timeout_ms / 1000,
        max_payload_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
    ).validate()
