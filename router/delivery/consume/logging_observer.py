"""Logs what a person should know of a consumer: pauses, full streams, handlers that raise. A
message that succeeds writes no line.
"""

from __future__ import annotations

from router.core.message import Message
from router.delivery.consume.subscription import NullObserver
from router.process.observability import events, logs

log = logs.logger(__name__)


class LoggingObserver(NullObserver):
    """What the observers of all consumers share."""

    def __init__(self, durable: str) -> None:
        self._durable = durable

    def on_flow(self, cause: str | None) -> None:
        if cause is not None:
            log.error(events.CONSUMER_PAUSED, consumer=self._durable, cause=cause)
        else:
            log.info(events.CONSUMER_RESUMED, consumer=self._durable)

    def on_server_pause(self, cause: str | None) -> None:
        if cause is not None:
            log.error(events.CONSUMER_PAUSED_BY_SERVER, consumer=self._durable, cause=cause)
        else:
            log.info(events.CONSUMER_RESUMED_BY_SERVER, consumer=self._durable)

    def on_storage(self, cause: str | None) -> None:
        if cause is not None:
            log.error(events.STORAGE_REFUSED, consumer=self._durable, cause=cause)
        else:
            log.info(events.STORAGE_TAKES, consumer=self._durable)

    def on_outage(self, cause: str | None) -> None:
        if cause is not None:
            log.error(events.REQUESTS_WAIT, consumer=self._durable, cause=cause)
        else:
            log.info(events.REQUESTS_GO_ON, consumer=self._durable)

    def on_handler_error(self, message: Message, exc: BaseException) -> None:
        log.error(
            events.HANDLER_FAILED, consumer=self._durable, sequence=message.sequence, exc_info=exc
        )
