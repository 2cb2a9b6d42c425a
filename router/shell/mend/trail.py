"""Audit events of the console: stored after each write; one that cannot be stored is said on the next page, and logged."""

from __future__ import annotations

from router.core.errors import RouterError
from router.operate.audit import OperatorWrite
from router.operate.audit.audit_event import CONSOLE
from router.operate.audit.audit_log import open_audit_log
from router.process.observability import events, logs
from router.shell.access import LoginSession
from router.shell.page_data import Sources

log = logs.logger(__name__)


class ConsoleTrail:
    def __init__(self, sources: Sources, session: LoginSession) -> None:
        self._sources = sources
        self._session = session
        self.lost = ""  # why the last event could not be stored

    async def record(self, write: OperatorWrite) -> None:
        """Store the event of a write that is done."""
        try:
            await open_audit_log(self._sources.settings, self._sources.link.jetstream(), self._session.user.name, CONSOLE).store(write)
        except RouterError as exc:
            self.lost = f"{write.command} {write.target}: {write.outcome}, but its audit event could not be stored: {exc}"
            log.error(events.CONSOLE_AUDIT_LOST, command=write.command, target=write.target, by=self._session.user.name, error=str(exc))
