"""Metrics of the handlers of decide requests, results and acks. A message that succeeds writes no
log line.
"""

from __future__ import annotations

from router.config.subscriptions import ACKNOWLEDGEMENTS, DECIDE, RESULTS
from router.contracts.acknowledgement import EXEC_ASSIGNMENT_ACK, ExecAssignmentAck
from router.contracts.alert import WARNING, Alert
from router.contracts.decision import (
    POLICY_NOT_FOUND,
    RATE_LIMIT_EXCEEDED,
    Decision,
    Refusal,
    RouteRequest,
)
from router.contracts.header_rules import Violation
from router.contracts.result import RESULT, ExecResult
from router.contracts.usage import UsageEvent
from router.contracts.worker import MessageType, ReadResult
from router.core.message import Message
from router.core.outcome import Fault
from router.decide.model.push import PUSH_TENANT_FORBIDDEN, SWITCHED_OFF
from router.decide.model.tenant_places import MAX_ANSWERED, TenantPlaces
from router.operate.alerts import Alerts
from router.operate.violations.recorder import ViolationRecorder
from router.process.observability import OTHER, LogRateLimit, Metrics, events, logs

log = logs.logger(__name__)

# labels of router_results_overruled_total
OVERRULED_FIELDS = ("provider_id", "job_type", "timestamp")

WorkerReading = ReadResult[ExecResult] | ReadResult[ExecAssignmentAck]


class DecideMetrics:
    """`decide.model.ports.DecideMeter`, counted."""

    def __init__(
        self, metrics: Metrics, violations: ViolationRecorder, places: TenantPlaces
    ) -> None:
        self._metrics = metrics
        self._violations = violations
        self._answered = places.answered
        for skipped in (SWITCHED_OFF, PUSH_TENANT_FORBIDDEN):
            # start the series at 0, so that its first event shows as an increase
            metrics.assignments_skipped[skipped.reason,] += 0

    def on_decision(
        self, request: RouteRequest, answer: Decision | Refusal, seconds: float
    ) -> None:
        metrics = self._metrics
        # the same as by its key, where few tenants have a label
        tenant = metrics.tenant.get(request.tenant_id, OTHER)
        if isinstance(answer, Decision):
            if len(self._answered) < MAX_ANSWERED:
                self._answered.add(request.tenant_id)
            metrics.decisions[
                tenant,
                metrics.policy[request.policy_id],
                metrics.provider[answer.provider_id],
                answer.reason,
                "ok",
            ] += 1
        else:
            # Labels are bounded: an unknown policy id of a client must not take the label of a real
            # policy.
            policy = "" if answer.code == POLICY_NOT_FOUND else metrics.policy[request.policy_id]
            metrics.decisions[tenant, policy, "", "", answer.code] += 1
            if answer.code == RATE_LIMIT_EXCEEDED:
                metrics.rate_limited.value += 1
        metrics.decision_seconds.observe(seconds)

    def on_violations(
        self,
        message: Message,
        violations: tuple[Violation, ...],
        tenant_id: str | None,
        trace_id: str | None,
    ) -> None:
        self._violations.read(DECIDE.name, message, violations, tenant_id, trace_id)

    def on_repeat(self) -> None:
        self._metrics.replays.value += 1

    def on_assignment_skipped(self, reason: str) -> None:
        self._metrics.assignments_skipped[reason,] += 1

    def on_session(self, outcome: str) -> None:
        self._metrics.sticky[outcome,] += 1


class HeldCosts:
    """Counts, logs and alerts costs that are held, of results and of invocations."""

    def __init__(self, metrics: Metrics, alerts: Alerts) -> None:
        self._metrics = metrics
        self._alerts = alerts
        self._lines = LogRateLimit(every_s=1.0)

    def __call__(self, event: UsageEvent) -> None:
        self._metrics.results_held.value += 1
        if self._lines.allow(events.RESULT_HELD):
            log.warning(
                events.RESULT_HELD,
                tenant=event.tenant_id,
                provider=event.provider_id,
                cost=event.cost,
                told_cost=event.told_cost,
            )
        self._alerts.raise_alert(make_held_alert(event))


class ResultsMetrics:
    """`results.ResultsMeter`, counted.

    With usage events the duplicate window of their stream detects repeated outcomes for all
    instances: `ConsumerMetrics` counts its publish acks. Without them only the memory of this
    process detects repeats.
    """

    def __init__(
        self, metrics: Metrics, violations: ViolationRecorder, alerts: Alerts, *, is_stored: bool
    ) -> None:
        self._metrics = metrics
        self._violations = violations
        self._held = HeldCosts(metrics, alerts)
        self._is_stored = is_stored
        for field in OVERRULED_FIELDS:
            metrics.results_overruled[field,] += 0  # as above
        self._lines = LogRateLimit(every_s=1.0)

    def on_violation(self, message: Message, reading: ReadResult[ExecResult]) -> None:
        _read_violations(self._violations, RESULTS.name, message, reading, RESULT)

    def on_outcome(self, status: str, provider_id: str, *, is_known: bool) -> None:
        labels = self._metrics.provider
        # Labels are bounded: an unknown provider id of a worker must not take the label of a real
        # provider.
        self._metrics.results[
            status, labels[provider_id] if is_known else labels.get(provider_id, OTHER)
        ] += 1

    def on_uncorrelated(self) -> None:
        self._metrics.results_uncorrelated.value += 1

    def on_forged(self) -> None:
        self._metrics.results_forged.value += 1
        if self._lines.allow(events.RESULT_FORGED):
            log.warning(events.RESULT_FORGED, total=self._metrics.results_forged.value)

    def on_duplicate(self, is_conflict: bool) -> None:
        if not self._is_stored:
            self._metrics.results_duplicate.value += 1
        if is_conflict:
            self._metrics.results_conflict.value += 1
            if self._lines.allow(events.RESULT_CONFLICT):
                log.warning(events.RESULT_CONFLICT, total=self._metrics.results_conflict.value)

    def on_overruled(self, field: str, event: UsageEvent) -> None:
        self._metrics.results_overruled[field,] += 1
        if self._lines.allow((events.RESULT_OVERRULED, field)):
            log.warning(
                events.RESULT_OVERRULED,
                field=field,
                tenant=event.tenant_id,
                assignment_id=event.assignment_id,
            )

    def on_held(self, event: UsageEvent) -> None:
        self._held(event)

    def on_corrected(self, event: UsageEvent) -> None:
        self._metrics.results_corrected.value += 1


class AcknowledgementMetrics:
    """`acks.AcknowledgementMeter`, counted."""

    def __init__(self, metrics: Metrics, violations: ViolationRecorder) -> None:
        self._metrics = metrics
        self._violations = violations

    def on_violation(self, message: Message, reading: ReadResult[ExecAssignmentAck]) -> None:
        _read_violations(
            self._violations, ACKNOWLEDGEMENTS.name, message, reading, EXEC_ASSIGNMENT_ACK
        )

    def on_acknowledgement(self, status: str) -> None:
        self._metrics.assignment_acknowledgements[status,] += 1

    def on_uncorrelated(self) -> None:
        self._metrics.acknowledgements_uncorrelated.value += 1


def make_held_alert(event: UsageEvent) -> Alert:
    """Once for each tenant and interval: it tells of the first, `router usage held list` of all."""
    facts = {
        "tenant_id": event.tenant_id,
        "provider_id": event.provider_id,
        "event_id": event.event_id,
        "assignment_id": event.assignment_id,
        "cost": event.cost,
        "told_cost": event.told_cost,
    }
    return Alert(
        severity=WARNING,
        component="router.results",
        cause=f"cost_held:{event.tenant_id}",
        message=(
            f"A cost of tenant {event.tenant_id} was told that is far above the expected one: "
            "it is held"
        ),
        metadata={name: value for name, value in facts.items() if value is not None},
    )


def _read_violations(
    recorder: ViolationRecorder,
    name: str,
    message: Message,
    reading: WorkerReading,
    kind: MessageType,
) -> None:
    found = reading.found
    if isinstance(found, Fault):
        recorder.read_unreadable(name, message, reading.violations, kind)
    else:
        recorder.read(name, message, reading.violations, found.tenant_id, found.trace_id)
