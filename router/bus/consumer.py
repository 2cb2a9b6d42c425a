"""One consumer of the bus: a durable on the events or the commands, driven by delivery
(docs/reference/requirements.md#sr-idempotency).

    durable {consumer_prefix}-{name}, explicit acks, 5 attempts with 1, 2, 4, 4 s between them, then
    a dead letter and TERM

Processes that use the same name share the work. The server counts deliveries, delivery counts
attempts (docs/reference/contracts.md#attempts). Dead letters have the format of all dead letters,
on `{prefix}.dlq.{original_subject}`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from router.bus.handling import EnvelopeProcessor
from router.bus.metrics import MeteringObserver
from router.bus.settings import BusSettings
from router.bus.subjects import COMMANDS, EVENTS, letters_of, names_in
from router.bus.topology import apply_topology, declare_streams, stream_of
from router.contracts.dead_letter_writer import DeadLetterWriter
from router.contracts.envelope import extract_envelope_ids
from router.core.errors import Misconfigured
from router.delivery.consume.consumer import Consumer
from router.delivery.consume.subscription import SILENT, ConsumerOptions, Observer, Subscription
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import ConsumerSpec, Topology

TERM_WITH_REASON = b"+TERM a dead letter is stored"
# Dead letters that a stream refuses hold back what failed, not the other messages.
DEFAULT_OPTIONS = ConsumerOptions(
    max_attempts=5, backoff=(1.0, 2.0, 4.0), prefetch=256, slots=64, max_waiting=64
)


class Interest(Struct, frozen=True, kw_only=True):
    """The messages that a consumer gets. `only`: a domain (`loop`) or a command
    (`iteration.start`); None: all of the stream.
    """

    name: str
    category: str = EVENTS
    only: str | None = None

    def subject(self, prefix: str) -> str | None:
        """The filter subject; None: everything. Raises Misconfigured."""
        if self.category not in (EVENTS, COMMANDS):
            raise Misconfigured(
                "category", f"should be {EVENTS} or {COMMANDS}; queries are answered, not consumed"
            )
        if self.only is not None and self.only not in (legal := names_in(self.category)):
            raise Misconfigured(
                "only", f"should be one of {', '.join(legal)}; nothing else ever comes"
            )
        return f"{prefix}.{self.category}.{self.only}" if self.only is not None else None


def durable_of(
    settings: BusSettings, interest: Interest, options: ConsumerOptions = DEFAULT_OPTIONS
) -> ConsumerSpec:
    return ConsumerSpec(
        stream=stream_of(settings, interest.category),
        durable=settings.durable(interest.name),
        filter_subject=interest.subject(settings.stream_prefix),
        ack_wait=options.ack_wait,
    )


def consumer_of(
    settings: BusSettings,
    durable: ConsumerSpec,
    handling: EnvelopeProcessor,
    jetstream: JetStream,
    *,
    options: ConsumerOptions = DEFAULT_OPTIONS,
    observer: Observer = SILENT,
) -> Consumer:
    """Build the supervised child: run it until cancelled, then it drains."""
    wanted = Topology(declare_streams(settings).streams, (durable,))
    subscription = Subscription(
        stream=durable.stream,
        durable=durable.durable,
        options=options,
        handle=handling,
        dead_letter=build_dead_letter_writer(
            settings, lambda: jetstream.connection.max_payload
        ).write,
        dead_letter_ack=TERM_WITH_REASON,
        observer=MeteringObserver(observer, handling.meter),
    )
    return Consumer(
        subscription,
        jetstream,
        attempts_bucket=settings.attempts.name,
        create=partial(apply_topology, jetstream, settings, wanted),
    )


def build_dead_letter_writer(
    settings: BusSettings, max_bytes: Callable[[], int]
) -> DeadLetterWriter:
    """Build the writer of a consumer's dead letters. `max_bytes`: the connection's max_payload.

    A dead letter keeps any payload that the bus accepts: a message of a work queue leaves its
    stream once its dead letter is stored.
    """
    return DeadLetterWriter(
        node_id=settings.node_id,
        max_bytes=max_bytes,
        payload_bytes=settings.max_payload_bytes,
        subject_pattern=letters_of(settings.stream_prefix),
        extract=lambda message: extract_envelope_ids(message.data),
    )
