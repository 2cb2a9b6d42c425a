"""What the rooms tell of their work becomes metrics and logs. Nothing is logged for a message that went well."""

from __future__ import annotations

import time

from router.config import Settings
from router.contracts.decision import RATE_LIMIT_EXCEEDED, Decision, Refusal
from router.contracts.headers import Violation
from router.contracts.request import RouteRequest
from router.delivery.desk import REFUSED_SUBJECT
from router.message import Message
from router.observability import Metrics, events, logs
from router.observability.once import Once
from router.outcome import MAXDELIVER_EXHAUSTED, Dead, Done, Outcome, Retry

log = logs.logger(__name__)


class DecideMetrics:
    """`decide.DecideMeter`, counted."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._violations = Once(every_s=1.0)

    def decided(self, request: RouteRequest, answer: Decision | Refusal, seconds: float) -> None:
        metrics = self._metrics
        tenant, policy = metrics.tenant[request.tenant_id], metrics.policy[request.policy_id]
        if isinstance(answer, Decision):
            metrics.decisions[tenant, policy, metrics.provider[answer.provider_id], answer.reason, "ok"] += 1
        else:
            metrics.decisions[tenant, policy, "", "", answer.code] += 1
            if answer.code == RATE_LIMIT_EXCEEDED:
                metrics.rate_limited.value += 1
        metrics.decision_seconds.observe(seconds)

    def violated(self, message: Message, violations: tuple[Violation, ...]) -> None:
        subject = self._metrics.subject[message.subject]
        for header, rule in violations:
            self._metrics.violations[subject, header, rule] += 1
            if self._violations.allows((subject, header, rule)):
                log.warning(
                    events.CONTRACT_VIOLATION,
                    contract_violation=True,
                    subject=subject,
                    message_id=message.headers.get("Nats-Msg-Id") or f"{message.stream}:{message.sequence}",
                    headers=[name for name, _ in violations],
                    rule=rule,
                )

    def replayed(self) -> None:
        self._metrics.replays.value += 1

    def session(self, outcome: str) -> None:
        self._metrics.sticky[outcome,] += 1


class LaneMetrics:
    """`delivery.lane.Observer` of one durable, counted and logged."""

    def __init__(self, metrics: Metrics, consumer: str, settings: Settings) -> None:
        self._metrics = metrics
        self._consumer = consumer
        self._letters = settings.dlq.enabled
        self._failures = Once(every_s=1.0)
        self.newest_ns = 0  # stream time of what was settled last

    def settled(self, message: Message, outcome: Outcome, is_final: bool) -> None:
        metrics = self._metrics
        self.newest_ns = message.stored_ns
        if is_final:
            metrics.acks[self._consumer,] += 1
            metrics.request_seconds.observe(time.time() - message.stored_ns / 1e9)
        if isinstance(outcome, Done):
            return
        subject = metrics.subject[message.subject]
        if isinstance(outcome, Retry) and not is_final:
            refused = outcome.fault is REFUSED_SUBJECT
            metrics.subjects_refused.value += refused
            metrics.redeliveries[self._consumer, "allowlist" if refused else "nak"] += 1
        elif self._letters:
            reason = outcome.reason if isinstance(outcome, Dead) else MAXDELIVER_EXHAUSTED
            metrics.letters[subject, reason] += 1
        else:
            metrics.letters_disabled.value += 1
            log.error(events.LETTERS_DISABLED, subject=subject, stream=message.stream, sequence=message.sequence)
        self._tell(message, outcome, is_final)

    def timed_out(self, message: Message) -> None:
        self._metrics.redeliveries[self._consumer, "timeout"] += 1

    def letter_refused(self, message: Message, cause: str) -> None:
        self._metrics.letter_failures.value += 1

    def flow_changed(self, cause: str | None) -> None:
        if cause is None:
            log.info(events.LANE_RESUMED, consumer=self._consumer)
        else:
            log.error(events.LANE_PAUSED, consumer=self._consumer, cause=cause)

    def alarmed(self, message: Message, exc: BaseException) -> None:
        if self._failures.allows(type(exc).__name__):
            log.error(events.HANDLER_FAILED, consumer=self._consumer, sequence=message.sequence, starts=message.starts, exc_info=exc)

    def _tell(self, message: Message, outcome: Outcome, is_final: bool) -> None:
        if isinstance(outcome, Done) or not self._failures.allows((outcome.fault.code, is_final)):
            return  # a stranger decides how many fail: the letters hold them all, the log one a second of each kind
        log.info(
            events.MESSAGE_SETTLED,
            consumer=self._consumer,
            sequence=message.sequence,
            deliveries=message.deliveries,
            starts=message.starts,
            outcome=type(outcome).__name__.lower(),
            is_final=is_final,
            code=outcome.fault.code,
            field=outcome.fault.field,
        )
