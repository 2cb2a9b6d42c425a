"""Audit events of writes that come as requests to a router: stored after each write; one that cannot be stored is logged, and answered."""

from __future__ import annotations

from router.config import Settings
from router.core.errors import RouterError
from router.delivery.wire.api import JetStream
from router.operate.audit import OperatorWrite
from router.operate.audit.audit_event import ADMIN_SERVICE
from router.operate.audit.audit_log import open_audit_log
from router.process.observability import events, logs

log = logs.logger(__name__)


class AdminTrail:
    """Of one request. `by`: the author that it names."""

    def __init__(self, settings: Settings, jetstream: JetStream, by: str) -> None:
        self._log = open_audit_log(settings, jetstream, by, ADMIN_SERVICE)
        self._by = by
        self.lost = ""  # the code of the error by which the event could not be stored

    async def record(self, write: OperatorWrite) -> None:
        """Store the event of a write that is done."""
        try:
            await self._log.store(write)
        except RouterError as exc:
            self.lost = exc.code
            log.error(events.ADMIN_AUDIT_LOST, command=write.command, target=write.target, by=self._by, error=str(exc))
