"""NatsJetStreamPublisher: events stored in their stream, in order, each with its receipt (PORT-047-003).

    store_in_order   an atomic batch: one receipt for all, so nothing of it can be out of order
                     └─ refused, or one is on no subject of the stream: in waves, the first event of each aggregate, then
                        the second …; what fails holds back the rest of its own aggregate, and nobody else's

What a refusal means is said here alone: `PublishUnavailable` is the broker's fault and spends nothing, `PublishRefused` is the event's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from router.clock import Clock, steady
from router.delivery.acked_publisher import AckedPublisher, NotPublished
from router.delivery.api import JetStream
from router.delivery.atomic_publisher import NOT_ENABLED, AtomicPublisher
from router.delivery.storing import open_publisher
from router.ids import subject_matcher
from router.message import Effect
from router.outcome import Receipt

TOO_LARGE = 10054  # for this stream: the only refusal that can be nobody's fault but the message's
# No answer; no room (memory, storage, account, stream); no leader; JetStream off: they pass, or an operator ends them.
AWAY = frozenset({0, 10002, 10008, 10023, 10028, 10039, 10047, 10076, 10077})


class PublishRefused(Struct, frozen=True):
    """The stream does not take this event; `cause` holds nothing of it."""

    cause: str


class PublishSkipped(Struct, frozen=True):
    """Held back: an earlier event of its aggregate was refused, or the waves took long enough."""


class PublishUnavailable(Struct, frozen=True):
    """The broker could not store it."""

    cause: str


PublishResult = Receipt | PublishRefused | PublishSkipped | PublishUnavailable


class OutgoingMessage(Struct, frozen=True, gc=False):
    """An event on its way. `order`: what must stay in order with what (its aggregate)."""

    effect: Effect
    order: tuple[str, str]


class NatsJetStreamPublisher:
    """One for the process (docs/requirements.md#sd-35); made by `open_nats_publisher`."""

    def __init__(
        self,
        jetstream: JetStream,
        batches: AtomicPublisher,
        publisher: AckedPublisher,
        *,
        is_atomic: bool,
        waves_s: float = 4.0,
        clock: Clock = steady,
    ) -> None:
        self._jetstream = jetstream
        self._batches = batches
        self._publisher = publisher
        self._is_atomic = is_atomic
        self._waves_s = waves_s  # no wave begins later: the rows' transaction must not wait until its server ends it
        self._clock = clock
        self._subjects: tuple[str, ...] = (">",)
        self._is_bound = subject_matcher(self._subjects)

    def set_subjects(self, subjects: tuple[str, ...]) -> None:
        """The stream's subjects. An event on none of them has no answer, as if the broker were away: the fault is its own all the same."""
        if subjects != self._subjects:
            self._subjects, self._is_bound = subjects, subject_matcher(subjects)

    async def publish(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> Receipt:
        """Store one message; its id is in the headers (docs/requirements.md#sd-23). Raises BrokerUnavailable, BrokerRefused."""
        ack = await self._jetstream.publish(subject, payload, headers)
        return Receipt(headers["Nats-Msg-Id"], str(ack["stream"]), int(ack["seq"]), bool(ack.get("duplicate", False)))

    async def publish_in_order(self, messages: Sequence[OutgoingMessage]) -> Sequence[PublishResult]:
        """What became of each of at most `atomic.MOST` events."""
        if self._is_atomic and len(messages) > 1 and all(self._is_bound(message.effect.subject) for message in messages):
            told = await self._batches.store([message.effect for message in messages])
            if not isinstance(told, NotPublished):
                return told
            if told.err_code == NOT_ENABLED:
                self._is_atomic = False
            elif told.err_code in AWAY:
                return [PublishUnavailable(told.cause)] * len(messages)
        return await self._publish_in_waves(messages)

    async def _publish_in_waves(self, messages: Sequence[OutgoingMessage]) -> Sequence[PublishResult]:
        results: list[PublishResult] = [PublishSkipped()] * len(messages)
        waiting = list(range(len(messages)))
        until = self._clock() + self._waves_s
        while waiting and self._clock() < until:
            wave, waiting = _split_wave(messages, waiting)
            told = await asyncio.gather(*(self._publisher.publish_and_wait([messages[place].effect]) for place in wave))
            has_stored = any(not isinstance(one, NotPublished) for one in told)
            for place, one in zip(wave, told, strict=True):
                results[place] = self._refusal(one, has_stored) if isinstance(one, NotPublished) else one[0]
            if any(isinstance(results[place], PublishUnavailable) for place in wave):
                break
            refused = {messages[place].order for place in wave if isinstance(results[place], PublishRefused)}
            waiting = [place for place in waiting if messages[place].order not in refused]
        return results

    def _refusal(self, told: NotPublished, has_neighbours: bool) -> PublishResult:
        """An unknown refusal is the event's own only if others were stored beside it."""
        if not told.err_code and not self._is_bound(told.subject):
            return PublishRefused(f"{told.subject} is no subject of the stream")
        if told.err_code == TOO_LARGE or (has_neighbours and told.err_code not in AWAY):
            return PublishRefused(f"the stream refused it: JetStream error {told.err_code}")
        return PublishUnavailable(told.cause)


@asynccontextmanager
async def open_nats_publisher(
    jetstream: JetStream, *, is_atomic: bool = True, timeout_s: float = 5.0
) -> AsyncIterator[NatsJetStreamPublisher]:
    """A publisher for as long as the block lasts."""
    batches = AtomicPublisher(jetstream, timeout_s)
    await batches.open()
    try:
        async with open_publisher(jetstream, timeout_s) as publisher:
            yield NatsJetStreamPublisher(jetstream, batches, publisher, is_atomic=is_atomic)
    finally:
        await batches.close()


def _split_wave(messages: Sequence[OutgoingMessage], waiting: Sequence[int]) -> tuple[list[int], list[int]]:
    """The places of the next wave, and those that wait on."""
    seen: set[tuple[str, str]] = set()
    wave: list[int] = []
    later: list[int] = []
    for place in waiting:
        order = messages[place].order
        (later if order in seen else wave).append(place)
        seen.add(order)
    return wave, later
