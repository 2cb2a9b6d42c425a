"""Two log lines of a process' connection to the broker: it was lost, it is back. For relay, inbox, agent and worker."""

from __future__ import annotations

from router.observability import events, logs

log = logs.logger(__name__)


class BrokerLog:
    """Of one connection; `is_closing`: it ends because its process does, and that is no loss."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.is_closing = False
        self.reconnects = 0

    async def on_lost(self) -> None:
        if not self.is_closing:
            log.warning(events.BROKER_LOST, connection=self._name)

    async def on_back(self) -> None:
        self.reconnects += 1
        log.info(events.BROKER_BACK, connection=self._name)
