"""Counts violations of the header contract, once for each stored message: metrics, log lines, and an alert when there are many.

A message may have several attempts, on several routers. Its violations are counted by the attempt that the shared attempt
record names as the first one (`delivery.attempts`):

    a first delivery              -> stored here, and counted when the attempt is settled and its record known
    a redelivery without record   -> counted at once: the process of the first delivery died, or returned it unread
    a redelivery with a record    -> counted already
    a live copy                   -> stored here, and counted when its stored copy is settled
"""

from __future__ import annotations

from collections import defaultdict, deque

from router.contracts.alert import WARNING, Alert
from router.contracts.header_rules import Violation
from router.contracts.headers import MESSAGE_ID, message_id_in
from router.core.clock import Clock, steady
from router.core.message import Message
from router.operations.observability import LogRateLimit, Metrics, events, logs
from router.services.alerts import Alerts

log = logs.logger(__name__)

VIOLATIONS_LIMIT = 10
VIOLATIONS_WINDOW_S = 60.0
MOST_UNSETTLED = 10_000  # messages in their first attempt: far more than a consumer may have in flight

Place = tuple[str, str, int, int] | int  # the position in a stream; for a live copy the hash of its content


class Violations:
    """One object for all consumers: the violations on a subject are counted together."""

    def __init__(self, metrics: Metrics, alerts: Alerts, clock: Clock = steady) -> None:
        self._metrics = metrics
        self._alerts = alerts
        self._clock = clock
        self._lines = LogRateLimit(every_s=1.0, clock=clock)
        self._times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=VIOLATIONS_LIMIT))
        self.unsettled: dict[Place, tuple[Violation, ...]] = {}  # oldest first; empty while clients keep the contract

    def read(self, message: Message, violations: tuple[Violation, ...]) -> None:
        """An attempt has read a message that violates the contract."""
        if message.deliveries == 1:
            self.unsettled[_place(message) if message.sequence else _content(message)] = violations
            if len(self.unsettled) > MOST_UNSETTLED:
                del self.unsettled[next(iter(self.unsettled))]
            return
        self.unsettled.pop(_place(message), None)  # of a delivery that was returned unread
        if not message.is_recorded:
            self.note(message, violations)

    def on_settled(self, message: Message) -> None:
        """An attempt was settled: count the violations of its message, if it was the first."""
        from_live_copy = self.unsettled.pop(_content(message), None)
        violations = self.unsettled.pop(_place(message), from_live_copy)
        if violations is not None and not message.is_recorded:
            self.note(message, violations)

    def note(self, message: Message, violations: tuple[Violation, ...]) -> None:
        subject = self._metrics.subject[message.subject]
        for header, rule in violations:
            self._metrics.violations[subject, header, rule] += 1
            if self._lines.allow((subject, header, rule)):
                log.warning(
                    events.CONTRACT_VIOLATION,
                    contract_violation=True,
                    subject=subject,
                    message_id=message_id_in(message.headers) or f"{message.stream}:{message.sequence}",
                    headers=[name for name, _ in violations],
                    rule=rule,
                )
            self._check_rate(subject)

    def _check_rate(self, subject: str) -> None:
        times, now = self._times[subject], self._clock()
        times.append(now)
        if len(times) == VIOLATIONS_LIMIT and now - times[0] <= VIOLATIONS_WINDOW_S:
            times.clear()
            message = f"{VIOLATIONS_LIMIT} violations of the header contract within a minute"
            self._alerts.raise_alert(
                Alert(
                    severity=WARNING,
                    component="router.contract",
                    cause=f"contract_violations:{subject}",
                    message=message,
                    metadata={"subject": subject},
                )
            )


def _place(message: Message) -> Place:
    return message.stream, message.consumer, message.sequence, message.stored_ns


def _content(message: Message) -> int:
    """A live copy has no stream sequence, so its content identifies it."""
    return hash((message.data, message.headers.get(MESSAGE_ID)))
