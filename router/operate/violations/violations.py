"""Counts violations of the header contract, once for each stored message and once for each request
that is refused: metrics, log lines, events.

A message may have several attempts, on several routers. Its violations are counted by the attempt
that the shared attempt record names as the first one (`delivery.consume.attempts`):

    a first delivery              -> kept here, and counted when the attempt is settled and its
                                  record known
    a redelivery without record   -> counted at once: the process of the first delivery died, or
                                  returned it unread
    a redelivery with a record    -> counted already
    a passing copy                   -> kept here, and counted when its stored copy is settled, or when
                                  that was not settled here in time
    a request that is not stored  -> `RefusedRequests` finds the one instance that counts it

What is kept until then holds ids, and no payload.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush

from msgspec import Struct

from router.contracts.header_rules import Violation
from router.contracts.headers import MESSAGE_ID
from router.core.clock import Clock, steady, wall
from router.core.message import Message
from router.delivery.wire.connection import Connection
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
        # Oldest first; both are empty while clients keep the contract. A passing copy has no place in
        # a stream: its content identifies it.
        self.unsettled: dict[Place, BrokenContract | None] = {}
        self.passing_copies: dict[int, BrokenContract] = {}

    def read(self, message: Message, broken: BrokenContract) -> None:
        """An attempt has read a message that violates the contract."""
        if not message.sequence:
            self._keep_passing_copy(_content(message), broken)
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
        from_passing_copy = (
            self.passing_copies.pop(_content(message), None) if self.passing_copies else None
        )
        broken = self.unsettled.pop(_place(message), from_passing_copy)
        if broken is not COUNTED and not message.is_recorded:
            self._note_at(broken, message)

    def count_passing_copies(self) -> None:
        """Called now and then: another instance settled the stored copies of those that are still
        here, and did not read them.
        """
        for content in [
            content for content, broken in self.passing_copies.items() if broken.is_old
        ]:
            self.note(self.passing_copies.pop(content))
        for broken in self.passing_copies.values():
            broken.is_old = True

    def _keep(self, place: Place, broken: BrokenContract | None) -> None:
        self.unsettled[place] = broken
        if len(self.unsettled) > MOST_UNSETTLED:
            del self.unsettled[next(iter(self.unsettled))]  # another attempt counts it

    def _keep_passing_copy(self, content: int, broken: BrokenContract) -> None:
        self.passing_copies[content] = broken
        if len(self.passing_copies) > MOST_UNSETTLED:
            self.note(self.passing_copies.pop(next(iter(self.passing_copies))))

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


# -- Counts the violations of requests that the listener refuses and no stream has: once, although
# every instance hears them.
#
# a request is refused         -> the instances tell one another its digest, the digests of some
#                              time in one message
# a while later (`SETTLE_S`)   -> the instance with the lowest name of those that told the digest
#                              counts it
#
# A request that one instance of a group hears (while passing copies are answered) is told by that one
# alone. An instance that dies in between counts nothing. Instances trust these messages, so only
# routers may publish on the subject.


REFUSED = "beamline.router.v1.internal.refused"
TELL_EVERY_S = 0.05
SETTLE_S = 1.0
MAX_PENDING = 10_000  # digests; what is refused above it is lost, and counted as lost
MAX_LINES = 2_000  # of one message
DIGEST_BYTES = 8


class _Refused(Struct):
    """A request that was refused here."""

    broken: BrokenContract
    until: float
    is_anothers: bool
    request: bytes  # digest of its inbox and data
    number: int


class _Numbers(Struct):
    """Which numbers the pending requests of one inbox and the same data have."""

    next: int = 0
    free: list[int] = []  # a heap: those below `next` whose request is counted

    def take(self) -> int:
        """Return the lowest number that is free: the other instances, which hear the same requests,
        find the same.
        """
        if self.free:
            return heappop(self.free)
        self.next += 1
        return self.next - 1


class RefusedRequests:
    """One object of a process. `note` counts one, `lose` what is not counted."""

    def __init__(
        self,
        instance: str,
        note: Callable[[BrokenContract], None],
        lose: Callable[[int], None],
        clock: Clock = steady,
    ) -> None:
        self._instance = instance
        self._note = note
        self._lose = lose
        self._clock = clock
        self._pending: dict[str, _Refused] = {}  # by digest, oldest first
        # digests that another instance counts, and until when they are kept; oldest first
        self._told_by_others: dict[str, float] = {}
        # by the digest of a request: it may be sent again while it is pending
        self._numbers: dict[bytes, _Numbers] = {}
        self._untold: list[str] = []
        self._has_some = asyncio.Event()

    def add(self, inbox: str, data: bytes, broken: BrokenContract) -> None:
        """The listener refused this request."""
        if len(self._pending) >= MAX_PENDING:
            self._lose(1)
            return
        request = blake2b(
            data + f"\x00{inbox}".encode("utf-8", "replace"), digest_size=DIGEST_BYTES
        ).digest()
        number = self._numbers.setdefault(request, _Numbers()).take()
        digest = blake2b(request + b"%d" % number, digest_size=DIGEST_BYTES).hexdigest()
        self._pending[digest] = _Refused(
            broken, self._clock() + SETTLE_S, digest in self._told_by_others, request, number
        )
        self._untold.append(digest)
        self._has_some.set()

    def on_told(self, data: bytes) -> None:
        """Another instance refused these requests too."""
        instance, *digests = data.decode("ascii", "replace").split("\n")[: MAX_LINES + 1]
        if instance >= self._instance:
            return
        for digest in digests:
            if (refused := self._pending.get(digest)) is not None:
                refused.is_anothers = True
            elif len(self._told_by_others) < MAX_PENDING and len(digest) == 2 * DIGEST_BYTES:
                self._told_by_others[digest] = self._clock() + SETTLE_S

    def count_due(self, *, is_ending: bool = False) -> None:
        """Count what no other instance counts."""
        now = self._clock()
        while self._pending and (
            is_ending or self._pending[next(iter(self._pending))].until <= now
        ):
            refused = self._pending.pop(next(iter(self._pending)))
            self._free_number(refused)
            if not refused.is_anothers:
                self._note(refused.broken)
        while (
            self._told_by_others
            and self._told_by_others[first := next(iter(self._told_by_others))] <= now
        ):
            del self._told_by_others[first]

    def _free_number(self, refused: _Refused) -> None:
        numbers = self._numbers[refused.request]
        heappush(numbers.free, refused.number)
        if len(numbers.free) == numbers.next:
            del self._numbers[refused.request]

    async def run(self, connection: Connection) -> None:
        sid = await connection.subscribe_direct(
            REFUSED, lambda _subject, _reply, data, _headers: self.on_told(data)
        )
        try:
            while True:
                await self._has_some.wait()
                self._tell(connection)
                self.count_due()
                if not self._pending:
                    self._has_some.clear()
                await asyncio.sleep(TELL_EVERY_S)
        finally:
            self._tell(connection)
            self.count_due(is_ending=True)
            await connection.unsubscribe(sid)

    def _tell(self, connection: Connection) -> None:
        while self._untold:
            lines, self._untold = self._untold[:MAX_LINES], self._untold[MAX_LINES:]
            connection.publish_nowait(REFUSED, "\n".join((self._instance, *lines)).encode())
