"""What a worker and a consumer of the bus log: the observers of their consumers."""

from __future__ import annotations

from router.core.message import Message
from router.core.outcome import Dead, Outcome, Retry
from router.delivery.consume.subscription import LoggingObserver
from router.process.observability import LogRateLimit, events, logs

log = logs.logger(__name__)


class ConsumerLogger(LoggingObserver):
    """The observer of a worker's consumer."""

    def __init__(self, durable: str) -> None:
        super().__init__(durable)
        self._once = LogRateLimit(every_s=30.0)

    def on_missing_stream(self, stream: str) -> None:
        """The stream does not exist yet: no router has made it."""
        if self._once.allow(stream):
            log.warning(events.CONSUMER_DELETED, stream=stream, consumer=self._durable)

    def on_start_failure(self, exc: BaseException) -> None:
        """The durable can be neither found nor made now; the worker tries again."""
        if self._once.allow(str(exc)[:256]):
            log.warning(events.BROKER_ERROR, consumer=self._durable, error=str(exc)[:1024])


class BusConsumerLogger(ConsumerLogger):
    """The observer of a bus consumer."""

    def on_settled(self, message: Message, outcome: Outcome, is_final: bool) -> None:
        if is_final and isinstance(outcome, Dead | Retry):
            stands_at = {
                "stream": message.stream,
                "consumer": message.consumer,
                "sequence": message.sequence,
            }
            log.warning(
                events.DEAD_LETTER_STORED,
                **stands_at,
                subject=message.subject,
                code=outcome.fault.code,
                attempts=message.attempts,
            )
