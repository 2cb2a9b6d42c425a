"""Counts violations of the header contract, once for each stored message: metrics, log lines, events.

A message may have several attempts, on several routers. Its violations are counted by the attempt that the shared attempt
record names as the first one (`delivery.attempts`):

    a first delivery              -> kept here, and counted when the attempt is settled and its record known
    a redelivery without record   -> counted at once: the process of the first delivery died, or returned it unread
    a redelivery with a record    -> counted already
    a live copy                   -> kept here, and counted when its stored copy is settled, or when that was not settled here in time
    a request that is not stored  -> `refused_requests` finds the one instance that counts it

What is kept until then holds ids, and no payload.
"""

from __future__ import annotations

from msgspec.structs import replace

from router.contracts.header_rules import Violation
from router.contracts.headers import MESSAGE_ID
from router.core.clock import Clock, steady, wall
from router.core.message import Message
from router.operations.observability import LogRateLimit, Metrics, events, logs
from router.services.violation_events import BrokenContract, ViolationEvents

log = logs.logger(__name__)

MOST_UNSETTLED = 10_000  # messages in their first attempt: far more than a consumer may have in flight
COUNTED = None  # of a redelivery whose handler may be called again

Place = tuple[str, str, int, int] | int  # the position in a stream; for a live copy the hash of its content


class Violations:
    """One object for all consumers of a process."""

    def __init__(self, metrics: Metrics, events: ViolationEvents, clock: Clock = steady) -> None:
        self._metrics = metrics
        self._events = events
        self._lines = LogRateLimit(every_s=1.0, clock=clock)
        self.unsettled: dict[Place, BrokenContract | None] = {}  # oldest first; empty while clients keep the contract

    def read(self, message: Message, broken: BrokenContract) -> None:
        """An attempt has read a message that violates the contract."""
        place = _place(message) if message.sequence else _content(message)
        if message.deliveries == 1:
            self._keep(place, broken)
        elif message.is_recorded:
            self.unsettled.pop(place, None)  # of a delivery that was returned unread
        elif self.unsettled.get(place, broken) is not COUNTED:
            self._keep(place, COUNTED)
            self.note(_locate(broken, message))

    def on_settled(self, message: Message) -> None:
        """An attempt was settled: count the violations of its message, if it was the first."""
        from_live_copy = self.unsettled.pop(_content(message), None)
        broken = self.unsettled.pop(_place(message), from_live_copy)
        if broken is not COUNTED and not message.is_recorded:
            self.note(_locate(broken, message))

    def count_live_copies(self) -> None:
        """Called now and then: another instance settled the stored copies of those that are still here, and did not read them."""
        old = [place for place, broken in self.unsettled.items() if isinstance(place, int) and broken is not COUNTED and broken.is_old]
        for place in old:
            self._forget(place)
        for broken in self.unsettled.values():
            if broken is not COUNTED:
                broken.is_old = True

    def _keep(self, place: Place, broken: BrokenContract | None) -> None:
        self.unsettled[place] = broken
        if len(self.unsettled) > MOST_UNSETTLED:
            self._forget(next(iter(self.unsettled)))

    def _forget(self, place: Place) -> None:
        """Of a delivery, another attempt counts; of a live copy, this one."""
        broken = self.unsettled.pop(place)
        if isinstance(place, int) and broken is not COUNTED:
            self.note(broken)

    def note(self, broken: BrokenContract) -> None:
        """Count the violations of one message."""
        metrics = self._metrics
        subject, tenant = metrics.subject[broken.subject], metrics.tenant[broken.tenant_id or ""]
        metrics.violating_messages[subject, tenant] += 1
        at, ids = wall(), _list_ids(broken)
        for violation in broken.violations:
            metrics.violations.note((subject, *violation, tenant), ids, at)
            if self._lines.allow((subject, violation)):
                self._log(broken, violation)
        self._events.add(broken)

    def _log(self, broken: BrokenContract, violation: Violation) -> None:
        log.warning(
            events.CONTRACT_VIOLATION,
            contract_violation=True,
            subject=broken.subject,
            tenant=broken.tenant_id,
            message_id=broken.message_id or (f"{broken.stream}:{broken.sequence}" if broken.sequence else None),
            headers=[name for name, _ in broken.violations],
            rule=violation[1],
        )


def _list_ids(broken: BrokenContract) -> dict[str, str]:
    """Of the exemplar, by which a trace or a message is found."""
    ids = {"trace_id": broken.trace_id, "message_id": broken.message_id}
    return {name: value for name, value in ids.items() if value is not None}


def _locate(broken: BrokenContract, message: Message) -> BrokenContract:
    return replace(broken, stream=message.stream, sequence=message.sequence, stored_ns=message.stored_ns)


def _place(message: Message) -> Place:
    return message.stream, message.consumer, message.sequence, message.stored_ns


def _content(message: Message) -> int:
    """A live copy has no stream sequence, so its content identifies it."""
    return hash((message.data, message.headers.get(MESSAGE_ID)))
