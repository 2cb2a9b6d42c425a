"""What one inbox needs on the server: its durable, its dead letters, the advisories for its
recovery.

The defaults are the specification's example: SEA consumes what VibesPro publishes
(docs/reference/requirements.md#sd-31).
"""

from __future__ import annotations

from router.config import Settings
from router.core import ids
from router.core.errors import Misconfigured
from router.delivery.consume.advisories import advisory_subject
from router.delivery.consume.subscription import ConsumerOptions
from router.delivery.wire.topology import ConsumerSpec, StreamSpec, Topology
from router.mailbox.inbox.dead_letters import dead_letters_stream
from router.mailbox.settings import InboxConfig


def check_names(settings: Settings) -> None:
    """Those that follow from other settings may become too long. Raises Misconfigured."""
    names = {"stream": settings.inbox.events_stream, "durable": durable_name_of(settings)}
    for setting, name in names.items():
        if not ids.is_token(name):
            raise Misconfigured(f"inbox.{setting}", "should be 1..64 of A-Z a-z 0-9 _ -")


def durable_name_of(settings: Settings) -> str:
    return settings.inbox.name_durable(settings.mailbox.context)


def consumer_options_of(inbox: InboxConfig, store_retry_s: float) -> ConsumerOptions:
    """A message is in flight until its handler has answered; handlers end by their own timeout, so
    the consumer has none of its own.
    """
    return ConsumerOptions(
        max_attempts=inbox.max_deliver,
        ack_wait=inbox.ack_wait_ms / 1000,
        prefetch=inbox.max_ack_pending,
        max_delayed=inbox.max_ack_pending,
        slots=inbox.max_ack_pending,
        store_retry=store_retry_s,
        max_waiting=max(1, inbox.max_ack_pending // 4),
        pauses_above=True,  # the server counts each message that is sent back, and gives it up
    )


def durable_of(settings: Settings) -> ConsumerSpec:
    """The durable consumer as specified (docs/reference/requirements.md#sd-31)."""
    inbox = settings.inbox
    return ConsumerSpec(
        stream=inbox.events_stream,
        durable=durable_name_of(settings),
        filter_subject=inbox.events_filter,
        ack_wait=inbox.ack_wait_ms / 1000,
        max_ack_pending=inbox.max_ack_pending,
        max_deliver=inbox.max_deliver,
    )


def recovery_consumer_of(settings: Settings) -> ConsumerSpec:
    """The consumer of the advisories about this durable."""
    durable = durable_name_of(settings)
    return ConsumerSpec(
        stream=settings.streams.advisories.name,
        durable=f"{durable}__net",
        filter_subject=advisory_subject(settings.inbox.events_stream, durable),
        max_ack_pending=1000,
    )


def inbox_streams(settings: Settings, advisories: StreamSpec, attempts: StreamSpec) -> Topology:
    """All but the stream of events, which its publisher makes. `attempts`: the bucket of recorded
    attempts.
    """
    dead_letters = dead_letters_stream(settings.mailbox.context, settings.streams.dlq.replicas)
    return Topology((dead_letters, advisories, attempts))
