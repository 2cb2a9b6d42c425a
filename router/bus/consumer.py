"""One consumer of the bus: a durable on the events or the commands, driven by delivery
(docs/reference/requirements.md#sr-idempotency). A message becomes an envelope, the handler's answer
an outcome.

    durable {consumer_prefix}-{name}, explicit acks, 5 attempts with 1, 2, 4, 4 s between them, then
    a dead letter and TERM

Processes that use the same name share the work. The server counts deliveries, delivery counts
attempts (docs/reference/contracts.md#attempts). Dead letters have the format of all dead letters,
on `{prefix}.dlq.{original_subject}`.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct

from router.bus.metrics import BusMetrics, ConsumerMeter, MeteringObserver
from router.bus.processed import Processed, Write
from router.bus.settings import BusSettings
from router.bus.subjects import (
    COMMANDS,
    EVENTS,
    apply_topology,
    dead_letters_of,
    declare_streams,
    names_in,
    stream_of,
)
from router.contracts.dead_letter import DeadLetterWriter
from router.contracts.envelope import MessageEnvelope, extract_envelope_ids, read_envelope
from router.contracts.malformed import Malformed
from router.core.crashpoints import crashpoint
from router.core.errors import BrokerUnavailable, Misconfigured
from router.core.message import Message
from router.core.outcome import PROCESSING_ERROR, Dead, Done, Fault, Outcome, Retry
from router.core.user_functions import (
    HandlerMisused,
    contain_cancellation,
    is_async_callable,
    require_call,
)
from router.delivery.consume.consumer import Consumer
from router.delivery.consume.subscription import SILENT, ConsumerOptions, Observer, Subscription
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import ConsumerSpec, Topology

# -- The values that a handler of the bus may return. It never acks a message itself: the key is
# stored before the ack.
#
# Rule: docs/reference/requirements.md#sr-25.
#
# None, or a Write      processed                      -> marked, +ACK
# Nak                   not now                        -> -NAK; at the last attempt a dead letter,
#                                                      then +TERM
# Term                  never here                     -> a dead letter, then +TERM
#
# Raising Poison is a Term, raising anything else a Nak.


class Nak(Struct, frozen=True):
    """A temporary failure. `delay`: seconds; None: 1, 2, 4, 4 … by attempt."""

    reason: str = "the handler asked for it again"
    delay: float | None = None


class Term(Struct, frozen=True):
    """A permanent failure: the message is not delivered again."""

    reason: str = "the handler refused it"


BusAnswer = Nak | Term | Write | None
BusHandler = Callable[[MessageEnvelope], BusAnswer | Awaitable[BusAnswer]]


# -- From a message to an outcome, in the order of docs/reference/requirements.md#sr-24: read,
# known? process, mark; then delivery acknowledges.
#
# cannot be read, version not supported   -> Dead: dead letter, TERM
# its key is known                        -> Done, and nothing else happens
# processed                               -> marked, Done
# Nak, an exception, or `sys.exit()`      -> Retry
# Term, or Poison                         -> Dead
# anything else, or a Write that the store cannot keep or run -> the consumer ends
# (`wait_for_misuse`); its messages stay


HANDLER_NAK = "handler_nak"
HANDLER_TERM = "handler_term"
# above what may be in flight; a message that another process gets leaves its own behind
MAX_UNMARKED = 10_000


class EnvelopeProcessor:
    """The handler of a bus consumer."""

    def __init__(
        self,
        settings: BusSettings,
        handle: BusHandler,
        processed: Processed,
        meter: ConsumerMeter | None = None,
    ) -> None:
        """`meter` None: nothing is counted. Raises Misconfigured for a handler that does not take
        an envelope.
        """
        require_call("handle", handle, "envelope")
        self._max_payload_bytes, self._max_depth = settings.max_payload_bytes, settings.max_depth
        self._handle = handle
        self._processed = processed
        # keys whose handler has run, while the store cannot be written; oldest first
        self._unmarked: dict[str, None] = {}
        # keys in flight: a second copy waits for the first
        self._running: dict[str, asyncio.Future[None]] = {}
        self.meter = meter or ConsumerMeter(BusMetrics(), "")
        self._misuse: HandlerMisused | None = None
        self._is_misused = asyncio.Event()

    def __call__(self, message: Message) -> Outcome | Awaitable[Outcome]:
        if self._misuse is not None:
            raise BrokerUnavailable(str(self._misuse))
        self.meter.on_delivery()
        try:
            envelope = read_envelope(
                message.data, max_bytes=self._max_payload_bytes, max_depth=self._max_depth
            )
        except Malformed as refused:
            self.meter.on_violation(refused.code)
            return Dead(refused.as_fault())
        return self._process_once(envelope, _key_of(message, envelope))

    async def wait_for_misuse(self) -> None:
        """A supervised child: raises HandlerMisused once the handler returned a value without
        meaning.
        """
        await self._is_misused.wait()
        assert self._misuse is not None  # what the event says  # noqa: S101
        raise self._misuse

    async def _process_once(self, envelope: MessageEnvelope, key: str) -> Outcome:
        while (first := self._running.get(key)) is not None:
            await asyncio.wait({first})
        in_hand = self._running[key] = asyncio.get_running_loop().create_future()
        try:
            if await self._processed.has(key):
                self._unmarked.pop(key, None)
                self.meter.on_duplicate()
                return Done()
            if self._misuse is not None:  # set by another message, meanwhile
                raise BrokerUnavailable(str(self._misuse))
            return await self._process(envelope, key)
        finally:
            del self._running[key]
            in_hand.set_result(None)

    async def _process(self, envelope: MessageEnvelope, key: str) -> Outcome:
        answer = None if key in self._unmarked else await self._answer(envelope)
        crashpoint("bus_processed")
        return await self._outcome_of(key, answer)

    async def _answer(self, envelope: MessageEnvelope) -> BusAnswer:
        begun = time.perf_counter()
        try:
            with contain_cancellation:
                answer = self._handle(envelope)
                return await answer if inspect.isawaitable(answer) else answer
        finally:
            self.meter.on_handled(time.perf_counter() - begun)

    async def _outcome_of(self, key: str, answer: BusAnswer) -> Outcome:
        match answer:
            case Nak(reason, delay):
                return Retry(Fault(HANDLER_NAK, reason), delay)
            case Term(reason):
                return Dead(Fault(HANDLER_TERM, reason), PROCESSING_ERROR)
            case write if write is not None and is_async_callable(write):
                raise self._end_with(
                    "it returned an async function, and what writes to the store is a "
                    "plain one: write `def`"
                )
            case write if write is None or callable(write):
                await self._mark(key, write)
                crashpoint("bus_marked")
                return Done()
            case _:
                raise self._end_with(
                    f"it returned {type(answer).__name__}, and should return None, Nak, "
                    "Term or what writes to the store"
                )

    async def _mark(self, key: str, write: Write | None) -> None:
        try:
            is_new = await self._processed.mark(key, write)
        except Misconfigured as exc:
            raise self._end_with(str(exc)) from exc
        except BrokerUnavailable:
            # effect and mark of a write are one transaction, and its handler makes another one
            if write is None:
                self._store_unmarked(key)
            raise
        self._unmarked.pop(key, None)
        if not is_new:
            self.meter.on_duplicate()

    def _store_unmarked(self, key: str) -> None:
        """Its handler has run, and is not to run again while its message is tried again: only the
        mark is missing.
        """
        self._unmarked[key] = None
        if len(self._unmarked) > MAX_UNMARKED:
            del self._unmarked[next(iter(self._unmarked))]

    def _end_with(self, misuse: str) -> BrokerUnavailable:
        """Report as if the broker were unavailable: messages in flight stay and spend no attempt,
        until the consumer has ended.
        """
        self._misuse = HandlerMisused("handle", misuse)
        self._is_misused.set()
        return BrokerUnavailable(misuse)


def _key_of(message: Message, envelope: MessageEnvelope) -> str:
    """The key in the store of processed keys; it holds the stream, since consumers of several
    streams may share a name and a store.
    """
    return f"{message.stream}/{envelope.idempotency_key}"


# -- One consumer of the bus: a durable on the events or the commands, driven by delivery.


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
        subject_pattern=dead_letters_of(settings.stream_prefix),
        extract=lambda message: extract_envelope_ids(message.data),
    )
