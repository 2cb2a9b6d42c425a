"""Raises an alert when many messages break the header contract on one subject, counted over all instances.

Every instance hears the events of all instances (`events`) and counts the messages that they stand for. All of them see
the same events, so all of them find the same one that crosses the limit: the instance that published it raises the alert, and none
raises another one of that subject for a while.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque

from router.contracts.alert import WARNING, Alert
from router.contracts.malformed import Malformed
from router.core.clock import Clock, steady
from router.delivery.replies.answers import INSTANCE
from router.delivery.wire.connection import Connection
from router.delivery.wire.frame_parser import Headers
from router.operate.alerts import Alerts
from router.operate.violations.violation import ALL_VIOLATIONS, ViolationEvent, read_violation

MESSAGES_LIMIT = 10  # messages on one subject within the window
WINDOW_S = 60.0
MAX_SUBJECTS = 1_000


class ViolationAlerts:
    """One object of a process. `instance`: the name under which it publishes its events; `every_s`: seconds between two alerts."""

    def __init__(self, alerts: Alerts, instance: str, every_s: float, clock: Clock = steady) -> None:
        self._alerts = alerts
        self._instance = instance
        self._every_s = every_s
        self._clock = clock
        self._quiet_until: dict[str, float] = {}  # by subject
        self._recent: defaultdict[str, deque[tuple[float, ViolationEvent]]] = defaultdict(lambda: deque(maxlen=MESSAGES_LIMIT))

    async def run(self, connection: Connection) -> None:
        """Listen until cancelled."""
        sid = await connection.subscribe_direct(ALL_VIOLATIONS, self._on_message)
        try:
            await asyncio.Event().wait()
        finally:
            await connection.unsubscribe(sid)

    def _on_message(self, _subject: str, _reply: str, data: bytes, headers: Headers | None) -> None:
        try:
            event = read_violation(data)
        except Malformed:
            return
        self.on_event(event, is_own=(headers or {}).get(INSTANCE) == self._instance)

    def on_event(self, event: ViolationEvent, *, is_own: bool) -> None:
        """Another violation of a message that was counted before has no messages."""
        if not event.messages:
            return
        if len(self._recent) >= MAX_SUBJECTS and event.subject not in self._recent:
            self._recent.clear()
            self._quiet_until.clear()
        recent, now = self._recent[event.subject], self._clock()
        recent.append((now, event))
        while now - recent[0][0] > WINDOW_S:
            recent.popleft()
        if now >= self._quiet_until.get(event.subject, now) and sum(one.messages for _, one in recent) >= MESSAGES_LIMIT:
            if is_own:
                self._alerts.raise_alert(_build_alert(event.subject, [one for _, one in recent]))
            recent.clear()
            self._quiet_until[event.subject] = now + self._every_s


def _build_alert(subject: str, found: list[ViolationEvent]) -> Alert:
    counts: Counter[tuple[str | None, str, str]] = Counter()
    for event in found:
        counts[event.tenant_id, event.header, event.rule] += event.messages
    (tenant, header, rule), _ = counts.most_common(1)[0]
    whose = f"tenant {tenant}" if tenant is not None else "a tenant that cannot be read"
    messages = sum(counts.values())
    return Alert(
        severity=WARNING,
        component="router.contract",
        cause=f"contract_violations:{subject}",
        message=f"{messages} messages broke the header contract within a minute, most of {whose}: {header} {rule}",
        metadata={
            "subject": subject,
            **({"tenant_id": tenant} if tenant is not None else {}),
            "header": header,
            "rule": rule,
            "messages": messages,
            "command": f"router contract violations --since 1h --subject {subject} --by tenant,rule",
        },
    )
