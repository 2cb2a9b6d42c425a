"""Counts violations of the header contract, once for each stored message: metrics, log lines,
events.

A message may have several attempts, on several routers. Its violations are counted by the attempt
that the shared attempt record names as the first one (`delivery.consume.attempts`):

    a first delivery              -> kept here, and counted when the attempt is settled and its
                                  record known
    a redelivery without record   -> counted at once: the process of the first delivery died, or
                                  returned it unread
    a redelivery with a record    -> counted already
    a live copy                   -> kept here, and counted when its stored copy is settled, or when
                                  that was not settled here in time
    a request that is not stored  -> `refused_requests` finds the one instance that counts it

What is kept until then holds ids, and no payload.
"""

from __future__ import annotations

from msgspec import Struct

from router.contracts.header_rules import Violation
from router.contracts.headers import MESSAGE_ID
from router.core.clock import Clock, steady, wall
from router.core.message import Message
from router.operate.violations.events import ViolationEvents
from router.operate.violations.windows import BrokenContract
from router.process.observability import LogRateLimit, Metrics, events, logs

log = logs.logger(__name__)

# messages in their first attempt: far more than a consumer may have in flight
MOST_UNSETTLED = 10_000
COUNTED = None  # of a redelivery whose handler may be called again
MOST_SERIES = 4_096  # combinations whose labels are kept
LINE_EVERY_S = 1.0

Place = tuple[str, str, int, int]  # the position in a stream


class _Series(Struct):
    """Messages that are counted under the same labels, and logged together."""

    subject: str
    tenant: str
    labels: list[tuple[str, str, str, str]]
    quiet_until: float = 0.0


class Violations:
    """One object for all consumers of a process."""

    def __init__(self, metrics: Metrics, events: ViolationEvents, clock: Clock = steady) -> None:
        self._metrics = metrics
        self._events = events
        self._clock = clock
        self._lines = LogRateLimit(every_s=LINE_EVERY_S, clock=clock)
        self._series: dict[tuple[str, str | None, tuple[Violation, ...]], _Series] = {}
        # Oldest first; both are empty while clients keep the contract. A live copy has no place in
        # a stream: its content identifies it.
        self.unsettled: dict[Place, BrokenContract | None] = {}
        self.live_copies: dict[int, BrokenContract] = {}

    def read(self, message: Message, broken: BrokenContract) -> None:
        """An attempt has read a message that violates the contract."""
        if not message.sequence:
            self._keep_live_copy(_content(message), broken)
            return
        place = _place(message)
        if message.deliveries == 1:
            self._keep(place, broken)
        elif message.is_recorded:
            self.unsettled.pop(place, None)  # of a delivery that was returned unread
        elif self.unsettled.get(place, broken) is not COUNTED:
            self._keep(place, COUNTED)
            self._note_at(broken, message)

    def on_settled(self, message: Message) -> None:
        """An attempt was settled: count the violations of its message, if it was the first."""
        from_live_copy = self.live_copies.pop(_content(message), None) if self.live_copies else None
        broken = self.unsettled.pop(_place(message), from_live_copy)
        if broken is not COUNTED and not message.is_recorded:
            self._note_at(broken, message)

    def count_live_copies(self) -> None:
        """Called now and then: another instance settled the stored copies of those that are still
        here, and did not read them.
        """
        for content in [content for content, broken in self.live_copies.items() if broken.is_old]:
            self.note(self.live_copies.pop(content))
        for broken in self.live_copies.values():
            broken.is_old = True

    def _keep(self, place: Place, broken: BrokenContract | None) -> None:
        self.unsettled[place] = broken
        if len(self.unsettled) > MOST_UNSETTLED:
            del self.unsettled[next(iter(self.unsettled))]  # another attempt counts it

    def _keep_live_copy(self, content: int, broken: BrokenContract) -> None:
        self.live_copies[content] = broken
        if len(self.live_copies) > MOST_UNSETTLED:
            self.note(self.live_copies.pop(next(iter(self.live_copies))))

    def _note_at(self, broken: BrokenContract, message: Message) -> None:
        broken.stream, broken.sequence, broken.stored_ns = (
            message.stream,
            message.sequence,
            message.stored_ns,
        )
        self.note(broken)

    def note(self, broken: BrokenContract) -> None:
        """Count the violations of one message."""
        series = self._series.get(
            (broken.subject, broken.tenant_id, broken.violations)
        ) or self._make_series(broken)
        metrics, at = self._metrics, wall()
        metrics.violating_messages[series.subject, series.tenant] += 1
        # of the exemplar, by which a trace or a message is found
        ids = {"trace_id": broken.trace_id, "message_id": broken.message_id}
        for labels in series.labels:
            metrics.violations.note(labels, ids, at)
        if (now := self._clock()) >= series.quiet_until:
            series.quiet_until = now + LINE_EVERY_S
            self._log_each(broken, series)
        self._events.add(broken)

    def _make_series(self, broken: BrokenContract) -> _Series:
        subject, tenant = (
            self._metrics.subject[broken.subject],
            self._metrics.tenant[broken.tenant_id or ""],
        )
        if len(self._series) >= MOST_SERIES:
            self._series.clear()
        series = _Series(
            subject, tenant, [(subject, *violation, tenant) for violation in broken.violations]
        )
        self._series[broken.subject, broken.tenant_id, broken.violations] = series
        return series

    def _log_each(self, broken: BrokenContract, series: _Series) -> None:
        for violation in broken.violations:
            if self._lines.allow((series.subject, violation)):
                self._log(broken, violation)

    def _log(self, broken: BrokenContract, violation: Violation) -> None:
        log.warning(
            events.CONTRACT_VIOLATION,
            contract_violation=True,
            subject=broken.subject,
            tenant=broken.tenant_id,
            message_id=broken.message_id
            or (f"{broken.stream}:{broken.sequence}" if broken.sequence else None),
            headers=[name for name, _ in broken.violations],
            rule=violation[1],
        )


def _place(message: Message) -> Place:
    return message.stream, message.consumer, message.sequence, message.stored_ns


def _content(message: Message) -> int:
    return hash((message.data, message.headers.get(MESSAGE_ID)))
