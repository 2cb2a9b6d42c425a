"""Stores the attempts of invocations: the record before the call, the usage event at the end
(docs/reference/extensions.md#attempt-record). And how long askers wait while neither is stored.

    keep ── publish ack ──> the call ──> meter ── publish ack ──> the record is deleted, and the answer goes out
     └── none: the call is not made, and for a second no other one; once the bucket or the stream has refused for longer than
         askers wait (it is missing, sealed), they hear that it is of no use to ask again

A record that stands after its deadline is metered by `work.invocations.unfinished_invocations`, of
whichever instance.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import orjson

from router.budgets.model.held_cost import make_held_notice
from router.contracts.decision import CANNOT_BE_STORED, OVERLOADED
from router.contracts.stored_record import record_bytes
from router.contracts.usage import UsageEvent, read_usage_event
from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock, steady
from router.core.errors import RouterError
from router.core.ids import bucket_prefix
from router.core.message import Effect
from router.core.outcome import PublishAck
from router.delivery.consume.settlement import BUCKET_REFUSES, TOO_LARGE
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished, PublishAcks
from router.delivery.publish.storing import open_publisher
from router.delivery.wire.api import JetStream
from router.delivery.wire.publish_faults import TOO_LARGE as TOO_LARGE_CODE
from router.delivery.wire.publish_faults import PublishFault, find_fault
from router.extensions.model.failure import InvocationRefused
from router.process.observability import LogRateLimit, events, logs
from router.work.model.invocation_record import (
    ATTEMPT_HEADER,
    InvocationRecord,
    make_attempt_effect,
    make_bill_effect,
    make_bill_event,
    make_further_effect,
)

# -- How long askers are told to ask again while a stream or a bucket refuses them.
#
# What refuses until an operator acts (it is missing, sealed) may be made again within seconds. So
# an asker is told `overloaded` at first, and `cannot_be_stored` once the refusal has lasted.


class Patience:
    """Of one stream or bucket. `seconds`: the setting `effects.patience_ms`."""

    def __init__(self, seconds: float, *, now: Clock = steady) -> None:
        self._seconds = seconds
        self._now = now
        self._since: float | None = None  # the first refusal of those that go on

    @property
    def is_over(self) -> bool:
        """Whether it is of no use to ask again before an operator has acted."""
        return self._since is not None and self._since <= self._now() - self._seconds

    def note(self, *, is_refused: bool) -> None:
        """Note one answer. Silence is no refusal."""
        if not is_refused:
            self._since = None
        elif self._since is None:
            self._since = self._now()


# -- Stores the attempts of invocations: the record before the call, the usage event at the end.


log = logs.logger(__name__)

PAUSE_S = 1.0  # after what could not be stored
HEAD_BYTES = 512  # of a header block at most, beside what its headers say
DELETE_EVERY_S = 1.0
MAX_PAUSED = 1_000  # tenants
MAX_UNSURE = 10_000  # records of which it is not known whether they are stored


class AttemptStore:
    """Over one connection. `bucket`: of the records. `on_held`: hears an event whose told cost is
    above its bound, once it is stored.
    """

    def __init__(
        self,
        jetstream: JetStream,
        bucket: str,
        on_held: Callable[[UsageEvent], None],
        *,
        patience_s: float,
        now: Clock = steady,
    ) -> None:
        self._jetstream = jetstream
        self._stream = f"KV_{bucket}"
        self._prefix = bucket_prefix(bucket)
        self._on_held = on_held
        self._records, self._events = Patience(patience_s, now=now), Patience(patience_s, now=now)
        self._now = now
        self._publisher: AckedPublisher | None = None
        self._paused_until = -math.inf
        self._paused: BoundedCache[str, float] = BoundedCache(MAX_PAUSED)
        self._unsure: dict[str, None] = {}
        self._lines = LogRateLimit(every_s=60.0)

    def is_paused(self, tenant_id: str) -> bool:
        """Whether what this tenant's provider does could not be metered."""
        return (
            self._now() < self._paused_until or self._paused.get(tenant_id, self._now()) is not None
        )

    def make_refusal(self, err_code: int = 0) -> InvocationRefused:
        """Why no provider is asked. `err_code`: of a record that is not stored."""
        if find_fault(err_code) is PublishFault.MESSAGE:
            return InvocationRefused(
                CANNOT_BE_STORED,
                "The record of this invocation is larger than its bucket takes",
                {"cause": TOO_LARGE},
            )
        if self._records.is_over or self._events.is_over:
            text = "Invocations cannot be metered until an operator mends their bucket or stream"
            return InvocationRefused(CANNOT_BE_STORED, text, {"cause": BUCKET_REFUSES})
        return InvocationRefused(OVERLOADED, "Invocations cannot be metered now; try again", {})

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """For the duration of the block. Raises BrokerUnavailable."""
        async with open_publisher(self._jetstream) as self._publisher:
            deleting = asyncio.create_task(self._delete_unsure())
            try:
                yield
            finally:
                deleting.cancel()

    async def keep(self, record: InvocationRecord) -> int:
        """Store the record; returns its sequence. Raises InvocationRefused. A caller that is
        cancelled leaves no record.
        """
        if self._publisher is None:
            raise self.make_refusal()
        effect = self._make_record(record)
        if self._is_too_large(effect):
            self._pause(_make_too_large(effect), record, self._records)
            raise self.make_refusal(TOO_LARGE_CODE)
        result = await self._publish_record(self._publisher, effect, record)
        if isinstance(result, PublishAck):
            self._records.note(is_refused=False)
            return result.sequence
        self._pause(result, record, self._records)
        self._doubt(record)
        raise self.make_refusal(result.err_code)

    async def _publish_record(
        self, publisher: AckedPublisher, effect: Effect, record: InvocationRecord
    ) -> PublishAck | NotPublished:
        kept: asyncio.Future[PublishAck | NotPublished] = asyncio.get_running_loop().create_future()

        def on_answer(result: PublishAcks | NotPublished) -> None:
            answer = result if isinstance(result, NotPublished) else result[0]
            if kept.done():
                self._on_kept_for_none(record, answer)
            else:
                kept.set_result(answer)

        publisher.publish([effect], on_answer)
        try:
            return await kept
        except asyncio.CancelledError:
            # the answer came in the same turn of the loop
            if not kept.cancelled():
                self._on_kept_for_none(record, kept.result())
            raise

    async def meter(
        self,
        record: InvocationRecord,
        event: UsageEvent,
        *,
        is_bill: bool,
        has_other_bill: bool = False,
    ) -> bool:
        """Store the event of an attempt; whether it is stored.

        `is_bill`: as the bill of its assignment, unless that has one already; `has_other_bill`: it
        is known to have one.
        """
        stored = await self._store_event(
            record, event, is_bill=is_bill, has_other_bill=has_other_bill
        )
        return stored is not None and await self.tell_held(record, stored)

    async def _store_event(
        self, record: InvocationRecord, event: UsageEvent, *, is_bill: bool, has_other_bill: bool
    ) -> UsageEvent | None:
        """The event as it is stored; None: it is not, or that cannot be read now."""
        if not is_bill:
            return await self._store_own(make_attempt_effect(record, event), record, event)
        if not has_other_bill:
            bill = make_bill_event(record, event)
            result = await self._publish(make_bill_effect(record, bill), record)
            if isinstance(result, NotPublished):
                return None
            if not result.is_duplicate:
                return bill
            try:
                stored = await self._jetstream.message(result.stream, result.sequence)
            except RouterError:
                return None
            # published before, by this attempt
            if stored is not None and stored.headers.get(ATTEMPT_HEADER) == record.attempt_id:
                return read_usage_event(stored.data) or bill
        return await self._store_own(make_further_effect(record, event), record, event)

    async def _store_own(
        self, effect: Effect, record: InvocationRecord, event: UsageEvent
    ) -> UsageEvent | None:
        """Under the attempt's own identity. Where it stands already, by a router that died, what is
        stored counts.
        """
        result = await self._publish(effect, record)
        if isinstance(result, NotPublished):
            return None
        return (
            await self.read_stored(result.stream, result.sequence, event)
            if result.is_duplicate
            else event
        )

    async def read_stored(
        self, stream: str, sequence: int, otherwise: UsageEvent
    ) -> UsageEvent | None:
        """The event at this place, `otherwise` where it has gone; None: it cannot be read now."""
        try:
            stored = await self._jetstream.message(stream, sequence)
        except RouterError:
            return None
        return otherwise if stored is None else read_usage_event(stored.data) or otherwise

    async def tell_held(self, record: InvocationRecord, event: UsageEvent) -> bool:
        """Whether nothing of its told cost is held, or operators are told."""
        return event.told_cost is None or await self._hold(record, event)

    async def _hold(self, record: InvocationRecord, event: UsageEvent) -> bool:
        """Tell operators of a cost that is held, before the record goes; whether the notice is
        stored.
        """
        if not _is_stored(await self._publish(make_held_notice(event, record.reservation), record)):
            return False
        self._on_held(event)
        return True

    def forget(self, sequence: int) -> None:
        """Delete a record. Where this is lost, it is found after its deadline, and its event is
        known then.
        """
        body = orjson.dumps({"seq": sequence, "no_erase": True})
        self._jetstream.connection.publish_nowait(
            f"{self._jetstream.prefix}.STREAM.MSG.DELETE.{self._stream}", body
        )

    async def _delete_unsure(self) -> None:
        """Delete the records of calls that were not made, which may be stored all the same."""
        while True:
            await asyncio.sleep(DELETE_EVERY_S)
            with suppress(RouterError):
                for subject in list(self._unsure):
                    await self._jetstream.ask(f"STREAM.PURGE.{self._stream}", {"filter": subject})
                    del self._unsure[subject]

    def _make_record(self, record: InvocationRecord) -> Effect:
        return Effect(
            self._jetstream.write_subject(self._prefix + record.key),
            record_bytes(record),
            record.event_id,
        )

    async def _publish(self, effect: Effect, record: InvocationRecord) -> PublishAck | NotPublished:
        if self._publisher is None:
            return NotPublished(effect.subject, 0, "invocations are not served")
        result = (
            _make_too_large(effect)
            if self._is_too_large(effect)
            else await self._publisher.publish_and_wait([effect])
        )
        if not isinstance(result, NotPublished):
            self._events.note(is_refused=False)
            return result[0]
        self._pause(result, record, self._events)
        return result

    def _is_too_large(self, effect: Effect) -> bool:
        """Whether the server would close the connection for it, and so end each invocation that is
        under way over it.
        """
        head = HEAD_BYTES + sum(map(len, effect.headers.values())) if effect.headers else HEAD_BYTES
        return len(effect.data) + head > self._jetstream.connection.max_payload

    def _pause(self, result: NotPublished, record: InvocationRecord, patience: Patience) -> None:
        until, fault = self._now() + PAUSE_S, find_fault(result.err_code)
        patience.note(is_refused=fault is PublishFault.STREAM)
        if fault is PublishFault.MESSAGE:  # its tenant alone waits
            self._paused.put(record.tenant_id, until, until, self._now(), owner=record.tenant_id)
        else:
            self._paused_until = until
        if self._lines.allow("store"):
            log.error(
                events.INVOCATION_NOT_METERED,
                tenant=record.tenant_id,
                provider=record.provider_id,
                cause=result.cause,
            )

    def _on_kept_for_none(
        self, record: InvocationRecord, result: PublishAck | NotPublished
    ) -> None:
        """Its caller was cancelled, and makes no call."""
        if isinstance(result, PublishAck):
            self.forget(result.sequence)
        else:
            self._doubt(record)

    def _doubt(self, record: InvocationRecord) -> None:
        if len(self._unsure) < MAX_UNSURE:  # beyond it, the oldest ones are metered as estimates
            self._unsure[self._prefix + record.key] = None


def _make_too_large(effect: Effect) -> NotPublished:
    return NotPublished(effect.subject, TOO_LARGE_CODE, "larger than the server takes")


def _is_stored(result: PublishAck | NotPublished) -> bool:
    return isinstance(result, PublishAck)
