"""Log a bus consumer: what every consumer of ours logs, and each message that became a dead letter."""

from __future__ import annotations

from router.core.message import Message
from router.core.outcome import Dead, Outcome, Retry
from router.operations.observability import events, logs
from router.sdk.consumer_logger import ConsumerLogger

log = logs.logger(__name__)


class BusConsumerLogger(ConsumerLogger):
    """The observer of a bus consumer."""

    def on_settled(self, message: Message, outcome: Outcome, is_final: bool) -> None:
        if is_final and isinstance(outcome, Dead | Retry):
            stands_at = {"stream": message.stream, "consumer": message.consumer, "sequence": message.sequence}
            log.warning(events.DEAD_LETTER_STORED, **stands_at, subject=message.subject, code=outcome.fault.code, attempts=message.attempts)
