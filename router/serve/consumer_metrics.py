"""The observer of one consumer: metrics, logs and alerts. A message that succeeds writes no log
line.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from router.config import Settings
from router.contracts.alert import CRITICAL, INFO, WARNING, Alert
from router.contracts.decision import INTERNAL, OVERLOADED
from router.contracts.extract import extract_ids
from router.contracts.headers import TENANT_ID
from router.core.message import Message
from router.core.outcome import MAXDELIVER_EXHAUSTED, Dead, Done, Outcome, PublishAck, Retry
from router.decide.passing_requests import count_answer, count_failed
from router.delivery.consume.processor import REFUSED_SUBJECT, REPLIED_IN_PASSING
from router.delivery.consume.settlement import STORAGE_FULL
from router.delivery.consume.subscription import (
    DEAD_LETTER_OMITTED,
    DECLINED,
    REFUSED,
    SENT_BACK,
    WAITING,
    LoggingObserver,
)
from router.operate.alerts import Alerts
from router.operate.dead_letters.original import REPLAY_RUN
from router.operate.violations.violations import Violations
from router.process.observability import LogRateLimit, Metrics, events, logs

log = logs.logger(__name__)

# results and acks of a tenant that is not allowed: the operator may allow it soon
TENANT_FORBIDDEN_CODE = "tenant_forbidden"


class ConsumerMetrics(LoggingObserver):
    """`delivery.consume.subscription.Observer` of one durable, counted and logged."""

    def __init__(
        self,
        metrics: Metrics,
        alerts: Alerts,
        durable: str,
        settings: Settings,
        *,
        is_replied_to: bool = False,
    ) -> None:
        super().__init__(durable)
        self._metrics = metrics
        self._alerts = alerts
        self._has_dead_letters = settings.dlq.enabled
        self._usage = settings.streams.usage.name
        self._published = {
            self._usage: metrics.usage_published,
            settings.streams.assignments.name: metrics.assignments_published,
        }
        self._labels = (durable,)
        self._seconds = metrics.request_seconds if is_replied_to else None
        self._is_replied_to = is_replied_to
        if is_replied_to:
            metrics.decisions[metrics.tenant[""], "", "", "", INTERNAL] += 0
        self._failures = LogRateLimit(every_s=1.0)
        self._without_dead_letter: Message | None = None  # the consumer settles it next
        for what in (WAITING, SENT_BACK, DECLINED, REFUSED, DEAD_LETTER_OMITTED):
            # start the series at 0, so that its first event shows as an increase
            metrics.storage_refused[durable, what] += 0
        self.violations: Violations | None = None  # is told which attempt was settled
        self.newest_ns = 0  # stream time of the message that was settled last

    def on_stored(self, message: Message, publish_acks: Sequence[PublishAck]) -> None:
        for publish_ack in publish_acks:
            if not publish_ack.is_duplicate:
                if (count := self._published.get(publish_ack.stream)) is not None:
                    count.value += 1
            elif publish_ack.stream == self._usage and message.deliveries == 1:
                # else the same message, after a crash
                self._metrics.results_duplicate.value += 1

    def on_settled(self, message: Message, outcome: Outcome, is_final: bool) -> None:
        metrics = self._metrics
        self.newest_ns = message.stored_ns
        if (violations := self.violations) is not None and (
            violations.unsettled or violations.passing_copies
        ):
            violations.on_settled(message)
        if is_final:
            metrics.acks[self._labels] += 1
            if REPLAY_RUN in message.headers:
                metrics.replayed.value += 1
            if self._seconds is not None and outcome is not REPLIED_IN_PASSING:
                self._seconds.observe(time.time() - message.stored_ns / 1e9)
        if isinstance(outcome, Done):
            return
        if is_final and self._is_replied_to:
            count_failed(metrics, message, outcome)
        if isinstance(outcome, Retry) and not is_final:
            self._count_redelivery(message, outcome)
        elif message is self._without_dead_letter:
            self._without_dead_letter = None
        elif self._has_dead_letters:
            self._count_dead_letter(
                message, outcome.reason if isinstance(outcome, Dead) else MAXDELIVER_EXHAUSTED
            )
        else:
            metrics.dead_letters_disabled.value += 1
            log.error(
                events.DEAD_LETTERS_DISABLED,
                subject=metrics.subject[message.subject],
                stream=message.stream,
                sequence=message.sequence,
            )
        self._log_failure(message, outcome, is_final)

    def on_unexpected_redelivery(self, message: Message) -> None:
        self._metrics.redeliveries[self._durable, "timeout"] += 1

    def on_dead_letter_unstored(self, message: Message, cause: str) -> None:
        self._metrics.dead_letter_failures.value += 1

    def on_flow(self, cause: str | None) -> None:
        super().on_flow(cause)
        if cause is not None:
            facts = {"consumer": self._durable, "detail": cause}
            text = (
                "A consumer is paused (see the detail): effects cannot be stored, or something "
                "that it needs is unavailable"
            )
            self._raise(CRITICAL, f"subscription_paused:{self._durable}", text, facts)

    def on_server_pause(self, cause: str | None) -> None:
        super().on_server_pause(cause)
        if cause is not None:
            facts = {"consumer": self._durable, "detail": cause}
            self._raise(
                CRITICAL,
                f"consumer_paused:{self._durable}",
                "The server holds a durable back: nothing is delivered",
                facts,
            )

    def on_storage(self, cause: str | None) -> None:
        super().on_storage(cause)
        if cause is not None:
            facts = {"consumer": self._durable, "detail": cause}
            text = "A stream refuses (see the detail): messages that must publish to it wait"
            self._raise(CRITICAL, f"storage_refused:{self._durable}", text, facts)

    def on_outage(self, cause: str | None) -> None:
        super().on_outage(cause)
        if cause is not None:
            facts = {"consumer": self._durable, "detail": cause}
            text = "A bucket is unavailable: messages that need it wait, the others go on"
            self._raise(CRITICAL, f"bucket_unavailable:{self._durable}", text, facts)

    def on_storage_refused(self, message: Message, subject: str, what: str) -> None:
        self._metrics.storage_refused[self._durable, what] += 1
        if what == DEAD_LETTER_OMITTED:
            self._without_dead_letter = message
            self._report_omitted(message)
        elif what == REFUSED:
            self._report_refused(subject)
        elif what == DECLINED and self._is_replied_to:
            count_answer(self._metrics, extract_ids(message).get(TENANT_ID, ""), OVERLOADED)

    def on_dead_letter_omitted(self, message: Message) -> None:
        """The tenant holds too much of a nearly full dead letter stream: the message is settled
        next, without a dead letter.
        """
        self._without_dead_letter = message
        self._metrics.storage_refused[self._durable, DEAD_LETTER_OMITTED] += 1
        self._report_omitted(message)

    def _report_refused(self, subject: str) -> None:
        subject = self._metrics.subject[subject]
        if self._failures.allow(REFUSED):
            log.error(events.STORAGE_REFUSED_FOR_GOOD, consumer=self._durable, subject=subject)
        text = (
            "What a message needs to store is never taken: it is too large, or its stream or "
            "bucket is missing or sealed"
        )
        self._raise(
            WARNING,
            f"cannot_be_stored:{self._durable}",
            text,
            {"consumer": self._durable, "subject": subject},
        )

    def _report_omitted(self, message: Message) -> None:
        if self._failures.allow(DEAD_LETTER_OMITTED):
            log.error(
                events.DEAD_LETTER_OMITTED,
                consumer=self._durable,
                stream=message.stream,
                sequence=message.sequence,
            )
        text = (
            "Dead letters are left out, and their failures are answered: the stream is full or "
            "takes none so large, or a tenant is above its share of it"
        )
        self._raise(
            CRITICAL,
            f"dead_letter_omitted:{self._durable}",
            text,
            {"consumer": self._durable, "stream": message.stream},
        )

    def on_handler_error(self, message: Message, exc: BaseException) -> None:
        if self._failures.allow(type(exc).__name__):
            log.error(
                events.HANDLER_FAILED,
                consumer=self._durable,
                sequence=message.sequence,
                attempts=message.attempts,
                exc_info=exc,
            )

    def _count_redelivery(self, message: Message, outcome: Retry) -> None:
        reason = (
            "tenant"
            if outcome.fault.code == TENANT_FORBIDDEN_CODE
            else "full"
            if outcome.fault is STORAGE_FULL
            else "nak"
        )
        if outcome.fault is REFUSED_SUBJECT:
            self._metrics.subjects_refused.value += 1
            if self._failures.allow(REFUSED_SUBJECT.code):
                log.warning(
                    events.SUBJECT_REFUSED,
                    consumer=self._durable,
                    subject=self._metrics.subject[message.subject],
                )
            reason = "allowlist"
        self._metrics.redeliveries[self._durable, reason] += 1

    def _count_dead_letter(self, message: Message, reason: str) -> None:
        subject = self._metrics.subject[message.subject]
        self._metrics.dead_letters[subject, reason] += 1
        self._raise(
            INFO,
            f"dead_letter_stored:{subject}:{reason}",
            "A dead letter was stored",
            {"subject": subject, "reason": reason},
        )

    def _raise(self, severity: str, cause: str, message: str, facts: Mapping[str, object]) -> None:
        self._alerts.raise_alert(
            Alert(
                severity=severity,
                component="router.delivery",
                cause=cause,
                message=message,
                metadata=facts,
            )
        )

    def _log_failure(self, message: Message, outcome: Outcome, is_final: bool) -> None:
        if isinstance(outcome, Done) or not self._failures.allow((outcome.fault.code, is_final)):
            # a client decides how many messages fail: every failure is a dead letter, the log shows
            # one a second of each kind
            return
        log.info(
            events.MESSAGE_SETTLED,
            consumer=self._durable,
            sequence=message.sequence,
            deliveries=message.deliveries,
            attempts=message.attempts,
            outcome=type(outcome).__name__.lower(),
            is_final=is_final,
            code=outcome.fault.code,
            field=outcome.fault.field,
        )
