"""The rules of an inbox from the settings, and what `router doctor` finds of it: how long its
messages wait if its process is killed.

In its own file, so that commands that only query need no database driver.
"""

from __future__ import annotations

from router.config import Settings
from router.core.errors import BrokerUnavailable
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import NANOS_PER_S
from router.mailbox.inbox.rules import InboxRules
from router.operate.doctor import Finding
from router.operate.doctor.finding import ok, span, warn


def rules_of(settings: Settings) -> InboxRules:
    """The rules of the inbox; names that are not set follow from its source."""
    context, inbox = settings.mailbox.context, settings.inbox
    return InboxRules(
        context=context,
        stream=inbox.stream or f"{inbox.source.upper()}_EVENTS",
        durable=inbox.durable or f"{context}__from_{inbox.source}",
        filter_subject=inbox.filter_subject or f"{inbox.source}.event.>",
        advisories=settings.streams.advisories.name,
        ack_wait=inbox.ack_wait_ms / 1000,
        max_deliver=inbox.max_deliver,
        max_ack_pending=inbox.max_ack_pending,
        nak_after=inbox.nak_after_ms / 1000 if inbox.nak_after_ms is not None else None,
        handler_timeout=inbox.handler.timeout_ms / 1000,
        max_payload_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
    ).validate()


LONG_S = 30.0
REMEDY = (
    "set inbox.ack_wait_ms to 15000 and delete the durable: rows record what was processed, "
    "in-progress signals keep what is in flight"
)


async def examine_inbox(jetstream: JetStream, settings: Settings) -> list[Finding]:
    """One finding, or none: the settings name no database, or there is no such durable."""
    rules = rules_of(settings)
    try:
        info = (
            await jetstream.consumer(rules.stream, rules.durable)
            if settings.mailbox.dsn is not None
            else None
        )
    except BrokerUnavailable:  # this role has no permission for it
        return []
    if info is None:
        return []
    check, wait_s = f"inbox {rules.durable}", info["config"]["ack_wait"] / NANOS_PER_S
    in_flight = f"{info['num_ack_pending']} of {info['config']['max_ack_pending']} in flight"
    found = f"{in_flight}; if its process is killed, they are redelivered after {span(wait_s)}"
    return [warn(check, found, REMEDY) if wait_s > LONG_S else ok(check, found)]
