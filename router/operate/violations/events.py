"""Violations of the header contract as events, and their stream: stored beside the way of the
messages.

    add ── an event of its own (`windows`) ──> queue ──> published, with publish acks
      └── above the limit, or while the queue is full: counted by the event that ends the minute

A message never waits for its events. While the broker is unavailable events wait in the queue, and
the minute does not end. What cannot be stored at all is counted. A redelivered message that is
counted twice, because a process died after it counted, is stored once: its event has a derived id.
Below stands how operators read them, added up.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import islice

import msgspec
import orjson
from msgspec import Struct

from router.contracts.codec import UNREADABLE_ERRORS
from router.contracts.header_rules import find_rule
from router.contracts.headers import MESSAGE_ID
from router.contracts.malformed import SCHEMA_VALIDATION_FAILED, STAGE_SCHEMA, Malformed
from router.core.clock import Clock, now_ms, steady
from router.core.errors import BrokerRefused, BrokerUnavailable
from router.core.ids import subject_matcher
from router.delivery.replies.reply_sender import INSTANCE
from router.delivery.wire.api import JetStream
from router.operate.event_reader import EventReader, StoredEvent
from router.operate.violations.windows import BrokenContract, ViolationWindow, ViolationWindows
from router.process.observability import LogRateLimit, Metrics, events, logs

# -- A violation of the header contract as an event: which tenant broke which rule, and where;
# never a value of a header.
#
# An event stands for `count` violations: itself, and those of the same tenant, subject, header and
# rule that were left out of the stream since the one before. `messages` of them are the first
# violation of their message, so the sum over all events counts messages. Rule:
# docs/reference/contracts.md#violation-events.


VIOLATION_SUBJECT = "beamline.router.v1.contract.violation.{subscription}"
ALL_VIOLATIONS = VIOLATION_SUBJECT.replace("{subscription}", "*")


class ViolationEvent(Struct, frozen=True, kw_only=True):
    """`tenant_id` None: it could not be read, or with `several_tenants` the event stands for more
    than one.

    `stream` and `sequence` None: the listener refused the message, which no stream has.
    """

    version: str = "1"
    subscription: str  # decide | results | acks
    subject: str
    header: str
    rule: str
    expected: str  # what the header should be
    tenant_id: str | None = None
    several_tenants: bool | None = None
    message_id: str | None = None
    trace_id: str | None = None
    stream: str | None = None
    sequence: int | None = None
    inbox_prefix: str | None = None  # of the requester: each role has its own
    timestamp: int  # milliseconds since the epoch
    router_node_id: str
    count: int = 1
    messages: int = 1


def violation_subject(subscription: str) -> str:
    return VIOLATION_SUBJECT.replace("{subscription}", subscription)


def list_violation_fields(event: ViolationEvent) -> Mapping[str, object]:
    """The event as it is on the wire: what is not known is absent."""
    return {
        name: value
        for name in ViolationEvent.__struct_fields__
        if (value := getattr(event, name)) is not None
    }


def violation_bytes(event: ViolationEvent) -> bytes:
    return orjson.dumps(list_violation_fields(event))


def read_violation(data: bytes) -> ViolationEvent:
    """Raises Malformed."""
    try:
        return _DECODER.decode(data)
    except UNREADABLE_ERRORS as exc:
        raise Malformed(
            SCHEMA_VALIDATION_FAILED, "This is no violation event", STAGE_SCHEMA
        ) from exc


_DECODER = msgspec.json.Decoder(ViolationEvent)


# -- Stores violations of the header contract as events in a stream of their own, beside the way
# of the messages.


log = logs.logger(__name__)

MINUTE_S = 60.0
MAX_QUEUED = 2_000  # events; above it, only those that end a minute
BATCH = 64
RETRY_S = 1.0
END_S = 1.0  # the events of a process that ends are stored within this, or lost


class _QueuedEvent(Struct, frozen=True):
    event: ViolationEvent
    id: str


class ViolationEvents:
    """One object of a process. `instance`: a name that no other process has; `is_known`: whether
    the operator named a tenant.
    """

    def __init__(
        self,
        metrics: Metrics,
        node_id: str,
        per_minute: int,
        clock: Clock = steady,
        is_known: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.instance = secrets.token_hex(8)
        self.windows = ViolationWindows(per_minute, is_known)
        self._metrics = metrics
        self._node_id = node_id
        self._clock = clock
        self._queue: deque[_QueuedEvent] = deque()
        self._lines = LogRateLimit(every_s=MINUTE_S)
        self._has_events = asyncio.Event()

    def add(self, broken: BrokenContract) -> None:
        """Called for each message that violates the contract: it must be cheap, and never waits."""
        for window in self.windows.add(broken, has_room=len(self._queue) < MAX_QUEUED):
            self._queue_event(window)

    def end_minute(self) -> None:
        """Queue the events that stand for what was left out, and begin a new minute."""
        for window in self.windows.end_minute():
            self._queue_event(window)

    async def run(self, jetstream: JetStream) -> None:
        """Store events until cancelled, and then those that are left."""
        try:
            ends_at = self._clock() + MINUTE_S
            while True:
                await self._wait(ends_at - self._clock())
                if not await self._store(jetstream):
                    await asyncio.sleep(RETRY_S)
                elif self._clock() >= ends_at:
                    self.end_minute()
                    ends_at = self._clock() + MINUTE_S
        finally:
            self.end_minute()
            await self._store_rest(jetstream)

    def _queue_event(self, window: ViolationWindow) -> None:
        self._queue.append(self._build(window))
        self._has_events.set()
        window.clear()

    def _build(self, window: ViolationWindow) -> _QueuedEvent:
        broken, (header, rule) = window.last, window.violation
        is_of_several = window.is_shared and window.count > 1
        event = ViolationEvent(
            subscription=broken.subscription,
            subject=broken.subject,
            header=header,
            rule=rule,
            expected=find_rule(window.violation).says,
            tenant_id=None if is_of_several else broken.tenant_id,
            several_tenants=True if is_of_several else None,
            message_id=broken.message_id,
            trace_id=broken.trace_id,
            stream=broken.stream or None,
            sequence=broken.sequence or None,
            inbox_prefix=broken.inbox_prefix or window.inbox_prefix,
            timestamp=now_ms(),
            router_node_id=self._node_id,
            count=window.count,
            messages=window.messages,
        )
        return _QueuedEvent(event, self._make_id(event, broken))

    def _make_id(self, event: ViolationEvent, broken: BrokenContract) -> str:
        """Of one message's violation, derived from its place; an event for several has an id of its
        own.
        """
        if event.count == 1 and broken.sequence:
            return f"violation:{broken.stream}:{broken.sequence}:{broken.stored_ns}:{event.header}:{event.rule}"
        return f"violation:{secrets.token_hex(12)}"

    # -- the stream --------------------------------------------------------------------------------

    async def _wait(self, seconds: float) -> None:
        if self._queue or seconds <= 0:
            return
        self._has_events.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._has_events.wait()
        except TimeoutError:
            pass

    async def _store(self, jetstream: JetStream) -> bool:
        """Publish what is queued. False: the broker is unavailable, and the rest stays queued."""
        while self._queue:
            # they stay in the queue: the process may end while they are published
            batch = list(islice(self._queue, BATCH))
            results = await asyncio.gather(*(self._publish(jetstream, event) for event in batch))
            for _ in batch:
                self._queue.popleft()
            unsent = [event for event, is_done in zip(batch, results, strict=True) if not is_done]
            self._queue.extendleft(reversed(unsent))
            if unsent:
                return False
        return True

    async def _publish(self, jetstream: JetStream, queued: _QueuedEvent) -> bool:
        """False: it must be published again."""
        headers = {MESSAGE_ID: queued.id, INSTANCE: self.instance}
        try:
            await jetstream.publish(
                violation_subject(queued.event.subscription), violation_bytes(queued.event), headers
            )
        except BrokerUnavailable as exc:
            self._note_failure(exc)
            return False
        except BrokerRefused as exc:
            self._note_failure(exc)
            self.lose(queued.event.count)
        return True

    async def _store_rest(self, jetstream: JetStream) -> None:
        try:
            async with asyncio.timeout(END_S):
                await self._store(jetstream)
        except TimeoutError:
            pass
        self.lose(sum(queued.event.count for queued in self._queue))
        self._queue.clear()

    def lose(self, count: int) -> None:
        self._metrics.violation_events_lost.value += count

    def _note_failure(self, exc: Exception) -> None:
        if self._lines.allow(type(exc).__name__):
            log.warning(events.VIOLATIONS_UNSTORED, cause=str(exc), queued=len(self._queue))


# -- Events of violations, read and added up: whose they are, of which rule; the worst first, with an
# example each.


UNREADABLE, SEVERAL = "(not readable)", "(several)"

StoredViolation = StoredEvent[ViolationEvent]


class ViolationFilter(Struct, frozen=True, kw_only=True):
    """Which events; None: any. `subject` may have wildcards, `rule` is `malformed` or
    `trace_id.malformed`.
    """

    tenant: str | None = None
    subject: str | None = None
    rule: str | None = None

    def is_match(self, event: ViolationEvent) -> bool:
        return (
            self.tenant in (None, event.tenant_id)
            and (self.subject is None or subject_matcher((self.subject,))(event.subject))
            and self.rule in (None, event.rule, f"{event.header}.{event.rule}")
        )


class ViolationReader(EventReader[ViolationEvent]):
    def parse(self, data: bytes) -> ViolationEvent:
        return read_violation(data)


def _name_tenant(event: ViolationEvent) -> str:
    return SEVERAL if event.several_tenants else event.tenant_id or UNREADABLE


DIMENSIONS: Mapping[str, Callable[[ViolationEvent], str]] = {
    "tenant": _name_tenant,
    "subject": lambda event: event.subject,
    "rule": lambda event: f"{event.header}.{event.rule}",
    "header": lambda event: event.header,
    "subscription": lambda event: event.subscription,
    "inbox": lambda event: event.inbox_prefix or "",
    "instance": lambda event: event.router_node_id,
}


class ViolationGroup(Struct):
    """Violations that are equal in some dimensions. `example`: the newest event's sequence; the
    times are the server's text.
    """

    of: dict[str, str]
    count: int = 0
    messages: int = 0
    first_seen: str = ""
    last_seen: str = ""
    example: int = 0
    message_id: str | None = None
    trace_id: str | None = None

    def add(self, violation: StoredViolation) -> None:
        event = violation.event
        self.count += event.count
        self.messages += event.messages
        self.first_seen = self.first_seen or violation.stored_at
        self.last_seen, self.example = violation.stored_at, violation.sequence
        self.message_id, self.trace_id = event.message_id, event.trace_id


async def add_up(
    violations: AsyncIterator[StoredViolation], by: Sequence[str]
) -> list[ViolationGroup]:
    """The groups, the one with the most violations first. `by`: names of DIMENSIONS."""
    groups: dict[tuple[str, ...], ViolationGroup] = {}
    async for violation in violations:
        kind = tuple(DIMENSIONS[name](violation.event) for name in by)
        if kind not in groups:
            groups[kind] = ViolationGroup(dict(zip(by, kind, strict=True)))
        groups[kind].add(violation)
    return sorted(groups.values(), key=lambda group: -group.count)
