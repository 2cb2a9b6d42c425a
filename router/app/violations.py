"""Broken header rules become metrics, a log line and, when they come in numbers, an alert (CONTRACTS §3, §6)."""

from __future__ import annotations

from collections import defaultdict, deque

from router.app.alerts import Alerts
from router.clock import Clock, steady
from router.contracts.alert import WARNING, Alert
from router.contracts.headers import Violation, message_id_in
from router.message import Message
from router.observability import Metrics, Once, events, logs

log = logs.logger(__name__)

MANY = 10
WITHIN_S = 60.0


class Violations:
    """One for all lanes: a subject's violations are counted together."""

    def __init__(self, metrics: Metrics, alerts: Alerts, clock: Clock = steady) -> None:
        self._metrics = metrics
        self._alerts = alerts
        self._clock = clock
        self._lines = Once(every_s=1.0, clock=clock)
        self._times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MANY))

    def note(self, message: Message, violations: tuple[Violation, ...]) -> None:
        subject = self._metrics.subject[message.subject]
        for header, rule in violations:
            self._metrics.violations[subject, header, rule] += 1
            if self._lines.allows((subject, header, rule)):
                log.warning(
                    events.CONTRACT_VIOLATION,
                    contract_violation=True,
                    subject=subject,
                    message_id=message_id_in(message.headers) or f"{message.stream}:{message.sequence}",
                    headers=[name for name, _ in violations],
                    rule=rule,
                )
            self._weigh(subject)

    def _weigh(self, subject: str) -> None:
        times, now = self._times[subject], self._clock()
        times.append(now)
        if len(times) == MANY and now - times[0] <= WITHIN_S:
            times.clear()
            message = f"{MANY} violations of the header contract within a minute"
            self._alerts.raised(
                Alert(
                    severity=WARNING,
                    component="router.contract",
                    cause=f"contract_violations:{subject}",
                    message=message,
                    metadata={"subject": subject},
                )
            )
