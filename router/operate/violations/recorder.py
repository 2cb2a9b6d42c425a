"""What a process does about violations of the header contract: it counts, stores and alerts, in one background task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from router.config import DECIDE, Settings
from router.contracts.extract import extract_ids
from router.contracts.header_rules import BLOCK_TOO_LARGE, FORBIDDEN, HEADER_BLOCK, Violation
from router.contracts.headers import MESSAGE_ID, TENANT_ID, TRACE_ID, message_id_in
from router.contracts.worker import MessageType
from router.core.clock import Clock, steady
from router.core.message import Message
from router.delivery.wire.api import JetStream
from router.operate.alerts import Alerts
from router.operate.violations.alerts import ViolationAlerts
from router.operate.violations.events import ViolationEvents
from router.operate.violations.inbox_prefixes import InboxPrefixes
from router.operate.violations.refused_requests import RefusedRequests
from router.operate.violations.violations import Violations
from router.operate.violations.windows import BrokenContract
from router.process.observability import Metrics

LOOK_EVERY_S = 30.0
FindRequester = Callable[[Message], str | None]  # the inbox that waits for the answer, where the listener heard it


class ViolationRecorder:
    """One object of a process, shared by all consumers and listeners. `has_policies`: whether a tenant has policies of its own."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        alerts: Alerts,
        clock: Clock = steady,
        *,
        has_policies: Callable[[str], bool] = lambda _: False,
    ) -> None:
        named = frozenset((*settings.tenants_allowed, *settings.metrics.tenant_label_allowlist))
        self.events = ViolationEvents(
            metrics,
            settings.node_id,
            settings.contract.events_per_minute,
            clock,
            is_known=lambda tenant_id: tenant_id in named or has_policies(tenant_id),
        )
        self.violations = Violations(metrics, self.events, clock)
        self.refused = RefusedRequests(self.events.instance, self.violations.note, self.events.lose, clock)
        self._alerts = ViolationAlerts(alerts, self.events.instance, settings.alerts.every_ms / 1000, clock)
        self._prefixes = InboxPrefixes(settings.reply.prefixes)
        self._find_requester: dict[str, FindRequester] = {}  # by stream

    def set_requesters(self, stream: str, find: FindRequester) -> None:
        """Where the requesters of a stream's messages are known."""
        self._find_requester[stream] = find

    def read(
        self,
        name: str,
        message: Message,
        violations: tuple[Violation, ...],
        tenant_id: str | None,
        trace_id: str | None,
    ) -> None:
        """A handler has read a message that violates the contract. `name`: its subscription's; None: the id could not be read."""
        is_counted_only = self.events.windows.is_full((tenant_id, message.subject, violations))
        broken = BrokenContract(
            subscription=name,
            subject=message.subject,
            violations=violations,
            tenant_id=tenant_id,
            trace_id=trace_id,
            message_id=message_id_in(message.headers),
            inbox_prefix=None if is_counted_only else self._find_prefix(message),
        )
        self.violations.read(message, broken)

    def _find_prefix(self, message: Message) -> str | None:
        """Now: once the message is answered, its inbox is forgotten."""
        find = self._find_requester.get(message.stream)
        return None if find is None else self._prefixes.find(find(message))

    def read_unreadable(self, name: str, message: Message, violations: tuple[Violation, ...], kind: MessageType) -> None:
        """The same of a message that its reader refused."""
        found = extract_ids(message, kind)
        self.read(name, message, violations, found.get(TENANT_ID), found.get(TRACE_ID))

    def refuse(self, subject: str, what: str, inbox: str, data: bytes, ids: Mapping[str, str]) -> None:
        """The listener refused a request: `what` is the control header, or HEADER_BLOCK; `ids`: those that could be read."""
        broken = BrokenContract(
            subscription=DECIDE.name,
            subject=subject,
            violations=(BLOCK_TOO_LARGE if what == HEADER_BLOCK else (what, FORBIDDEN),),
            tenant_id=ids.get(TENANT_ID),
            trace_id=ids.get(TRACE_ID),
            message_id=ids.get(MESSAGE_ID),
            inbox_prefix=self._prefixes.find(inbox),
        )
        self.refused.add(inbox, data, broken)

    async def run(self, jetstream: JetStream) -> None:
        """Until cancelled; then what is left is stored."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.events.run(jetstream))
            tasks.create_task(self._alerts.run(jetstream.connection))
            tasks.create_task(self.refused.run(jetstream.connection))
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                self.violations.count_live_copies()
