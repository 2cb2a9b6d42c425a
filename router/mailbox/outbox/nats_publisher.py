"""NatsJetStreamPublisher: stores events in their stream, in order, and returns a publish ack for
each (PORT-047-003).

    publish_in_order   an atomic batch: one publish ack for all, so no event of it can be out of
                       order
                       └─ refused, or a subject is not bound: in waves, the first event of each aggregate, then the
                          second …; a failure holds back the later events of its own aggregate only

Only this module says what a refusal means: `PublishUnavailable` is the broker's failure and costs
no attempt, `PublishRefused` is the event's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from router.core.clock import Clock, steady
from router.core.errors import Poison
from router.core.ids import subject_matcher
from router.core.message import Effect
from router.core.outcome import PublishAck
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished
from router.delivery.publish.atomic_publisher import BATCHES_NOT_ENABLED, AtomicPublisher
from router.delivery.publish.storing import open_publisher
from router.delivery.wire.api import JetStream
from router.delivery.wire.publish_faults import (
    NO_STREAM,
    SEALED,
    SERVER_CODES,
    STORAGE_FULL_CODES,
    TOO_LARGE_CODES,
)

MSG_ID = "Nats-Msg-Id"
# these pass, or an operator ends them
AWAY = SERVER_CODES | STORAGE_FULL_CODES | {NO_STREAM, SEALED}


class PublishRefused(Struct, frozen=True):
    """The stream does not accept this event; `cause` holds nothing of its content."""

    cause: str


class PublishSkipped(Struct, frozen=True):
    """Not sent: an earlier event of its aggregate was refused, or the waves took too long."""


class PublishUnavailable(Struct, frozen=True):
    """The broker could not store it."""

    cause: str


PublishResult = PublishAck | PublishRefused | PublishSkipped | PublishUnavailable


class OutgoingMessage(Struct, frozen=True, gc=False):
    """An event to publish. Messages of one `order` (the aggregate) keep their order."""

    effect: Effect
    order: tuple[str, str]


class NatsJetStreamPublisher:
    """One for the process (docs/reference/requirements.md#sd-35); `open_nats_publisher` makes it."""

    def __init__(
        self,
        jetstream: JetStream,
        batches: AtomicPublisher,
        acked_publisher: AckedPublisher,
        *,
        is_atomic: bool,
        waves_s: float = 4.0,
        clock: Clock = steady,
    ) -> None:
        self._jetstream = jetstream
        self._batches = batches
        self._acked_publisher = acked_publisher
        self._is_atomic = is_atomic
        # no wave begins later: the rows' transaction must not wait until its server ends it
        self._waves_s = waves_s
        self._clock = clock
        self._subjects: tuple[str, ...] = (">",)
        self._is_bound = subject_matcher(self._subjects)

    def set_subjects(self, subjects: tuple[str, ...]) -> None:
        """Set the stream's subjects. No server answers an event on another subject, as if it were
        unavailable; the event is at fault.
        """
        if subjects != self._subjects:
            self._subjects, self._is_bound = subjects, subject_matcher(subjects)

    async def publish(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> PublishAck:
        """Store one message; its id is in the headers (docs/reference/requirements.md#sd-23).

        Raises BrokerUnavailable, BrokerRefused, and Poison for headers without the id: stored
        again, the message would be there twice.
        """
        if not (event_id := headers.get(MSG_ID)):
            raise Poison(f"headers: {MSG_ID} is missing, and by it the stream stores an event once")
        ack = await self._jetstream.publish(subject, payload, headers)
        return PublishAck(
            event_id, str(ack["stream"]), int(ack["seq"]), bool(ack.get("duplicate", False))
        )

    async def publish_in_order(
        self, messages: Sequence[OutgoingMessage]
    ) -> Sequence[PublishResult]:
        """Publish at most `atomic.MOST` events; return the result of each."""
        if (
            self._is_atomic
            and len(messages) > 1
            and all(self._is_bound(message.effect.subject) for message in messages)
        ):
            answer = await self._batches.publish([message.effect for message in messages])
            if not isinstance(answer, NotPublished):
                return answer
            if answer.err_code == BATCHES_NOT_ENABLED:
                self._is_atomic = False
            elif answer.err_code in AWAY:
                return [PublishUnavailable(answer.cause)] * len(messages)
        return await self._publish_in_waves(messages)

    async def _publish_in_waves(
        self, messages: Sequence[OutgoingMessage]
    ) -> Sequence[PublishResult]:
        results: list[PublishResult] = [PublishSkipped()] * len(messages)
        waiting = list(range(len(messages)))
        until = self._clock() + self._waves_s
        while waiting and self._clock() < until:
            wave, waiting = _split_wave(messages, waiting)
            answer = await asyncio.gather(
                *(
                    self._acked_publisher.publish_and_wait([messages[place].effect])
                    for place in wave
                )
            )
            has_stored = any(not isinstance(result, NotPublished) for result in answer)
            for place, result in zip(wave, answer, strict=True):
                results[place] = (
                    self._refusal(result, has_stored)
                    if isinstance(result, NotPublished)
                    else result[0]
                )
            if any(isinstance(results[place], PublishUnavailable) for place in wave):
                break
            refused = {
                messages[place].order
                for place in wave
                if isinstance(results[place], PublishRefused)
            }
            waiting = [place for place in waiting if messages[place].order not in refused]
        return results

    def _refusal(self, answer: NotPublished, has_neighbours: bool) -> PublishResult:
        """An unknown refusal is the event's own only if other events were stored with it."""
        if answer.err_code in (0, NO_STREAM) and not self._is_bound(answer.subject):
            return PublishRefused(f"{answer.subject} is no subject of the stream")
        if answer.err_code in TOO_LARGE_CODES or (has_neighbours and answer.err_code not in AWAY):
            return PublishRefused(f"the stream refused it: JetStream error {answer.err_code}")
        return PublishUnavailable(answer.cause)


@asynccontextmanager
async def open_nats_publisher(
    jetstream: JetStream, *, is_atomic: bool = True, timeout_s: float = 5.0
) -> AsyncIterator[NatsJetStreamPublisher]:
    """Open a publisher for as long as the block lasts."""
    batches = AtomicPublisher(jetstream, timeout_s)
    await batches.open()
    try:
        async with open_publisher(jetstream, timeout_s) as acked_publisher:
            yield NatsJetStreamPublisher(jetstream, batches, acked_publisher, is_atomic=is_atomic)
    finally:
        await batches.close()


def _split_wave(
    messages: Sequence[OutgoingMessage], waiting: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the positions of the next wave, and those that wait on."""
    seen: set[tuple[str, str]] = set()
    wave: list[int] = []
    later: list[int] = []
    for place in waiting:
        order = messages[place].order
        (later if order in seen else wave).append(place)
        seen.add(order)
    return wave, later
