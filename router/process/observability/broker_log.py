"""Log lines of a connection to the broker: disconnected, reconnected. The relay, the inbox, agents
and workers use it.
"""

from __future__ import annotations

from router.process.observability import events, logs

log = logs.logger(__name__)


class BrokerLog:
    """Logs what happens to one connection. With `is_closing` the process closes it itself, and
    nothing is logged.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.is_closing = False
        self.reconnects = 0

    async def on_disconnected(self) -> None:
        if not self.is_closing:
            log.warning(events.BROKER_DISCONNECTED, connection=self._name)

    async def on_reconnected(self) -> None:
        self.reconnects += 1
        log.info(events.BROKER_RECONNECTED, connection=self._name)
