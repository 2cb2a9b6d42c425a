"""The options of one inbox, and what it needs on the server: its durable, its dead letters, the
advisories for its recovery.

The defaults are the specification's example: SEA consumes what VibesPro publishes
(docs/reference/requirements.md#sd-31).
"""

from __future__ import annotations

from msgspec import Struct

from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.core import ids
from router.core.errors import Misconfigured
from router.delivery.consume.advisories import ADVISORY_STREAM, advisory_subject
from router.delivery.consume.subscription import ConsumerOptions
from router.delivery.wire.topology import ConsumerSpec, StreamSpec, Topology
from router.mailbox.inbox.dead_letters import letters_stream


class InboxRules(Struct, frozen=True, kw_only=True):
    """Durations are seconds. `max_ack_pending` is also how many messages are in flight at once."""

    context: str = "sea"  # whose inbox it is; dead letters carry it
    stream: str = "VIBESPRO_EVENTS"
    durable: str = "sea__from_vibespro"
    filter_subject: str = "vibespro.event.>"
    advisories: str = ADVISORY_STREAM  # the stream that keeps the server's advisories
    ack_wait: float = 120.0
    max_deliver: int = 20  # the server's own limit; on the last delivery we give up ourselves
    max_ack_pending: int = 50
    nak_after: float | None = (
        # a failure is NAKed with this delay; None: neither ack nor NAK, so the ack wait redelivers
        # it (POL-047-007)
        None
    )
    handler_timeout: float = 30.0
    # of an event; a larger or deeper one becomes a dead letter
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    max_depth: int = MAX_DEPTH
    # seconds between two tries of an unavailable database, handler or broker
    store_retry: float = 1.0

    def validate(self) -> InboxRules:
        """Raises Misconfigured."""
        for name in ("context", "stream", "durable"):
            if not ids.is_token(getattr(self, name)):
                raise Misconfigured(f"inbox.{name}", "should be 1..64 of A-Z a-z 0-9 _ -")
        if min(self.max_deliver, self.max_ack_pending) < 1:
            raise Misconfigured("inbox.max_deliver, inbox.max_ack_pending", "should be 1 or more")
        return self

    @property
    def recovery_durable(self) -> str:
        return f"{self.durable}__net"


def consumer_options_of(rules: InboxRules) -> ConsumerOptions:
    """A message is in flight until its handler has answered; handlers end by their own timeout, so
    the consumer has none of its own.
    """
    return ConsumerOptions(
        max_attempts=rules.max_deliver,
        ack_wait=rules.ack_wait,
        prefetch=rules.max_ack_pending,
        max_delayed=rules.max_ack_pending,
        slots=rules.max_ack_pending,
        store_retry=rules.store_retry,
        max_waiting=max(1, rules.max_ack_pending // 4),
        pauses_above=True,  # the server counts each message that is sent back, and gives it up
    )


def durable_of(rules: InboxRules) -> ConsumerSpec:
    """The durable consumer as specified (docs/reference/requirements.md#sd-31)."""
    return ConsumerSpec(
        stream=rules.stream,
        durable=rules.durable,
        filter_subject=rules.filter_subject,
        ack_wait=rules.ack_wait,
        max_ack_pending=rules.max_ack_pending,
        max_deliver=rules.max_deliver,
    )


def recovery_consumer_of(rules: InboxRules) -> ConsumerSpec:
    """The consumer of the advisories about this durable."""
    return ConsumerSpec(
        stream=rules.advisories,
        durable=rules.recovery_durable,
        filter_subject=advisory_subject(rules.stream, rules.durable),
        max_ack_pending=1000,
    )


def inbox_streams(
    rules: InboxRules, advisories: StreamSpec, attempts: StreamSpec, *, letters_replicas: int = 1
) -> Topology:
    """All but the stream of events, which its publisher makes. `attempts`: the bucket of recorded
    attempts.
    """
    return Topology((letters_stream(rules.context, letters_replicas), advisories, attempts))
