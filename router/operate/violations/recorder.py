"""What a process does about violations of the header contract: it counts, stores and alerts, in one
background task.

InboxPrefixes       which role asked, by the prefix of its inbox
ViolationAlerts     an alert where many messages break the contract on one subject
ViolationRecorder   what handlers and listeners call
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping

from router.config import DECIDE, Settings
from router.contracts.alert import WARNING, Alert
from router.contracts.extract import extract_ids
from router.contracts.header_rules import BLOCK_TOO_LARGE, FORBIDDEN, HEADER_BLOCK, Violation
from router.contracts.headers import MESSAGE_ID, TENANT_ID, TRACE_ID, message_id_in
from router.contracts.malformed import Malformed
from router.contracts.worker import MessageType
from router.core.clock import Clock, steady
from router.core.message import Message
from router.delivery.replies.reply_sender import INSTANCE
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.delivery.wire.frames import Headers
from router.operate.admin.request_guard import SHARED_INBOX_PREFIX
from router.operate.alerts import Alerts
from router.operate.violations.events import (
    ALL_VIOLATIONS,
    ViolationEvent,
    ViolationEvents,
    read_violation,
)
from router.operate.violations.violations import RefusedRequests, Violations
from router.operate.violations.windows import BrokenContract
from router.process.observability import Metrics

# -- The recorder.

PASSING_COPIES_EVERY_S = 30.0
# the inbox that waits for the answer, where the listener heard it
FindRequester = Callable[[Message], str | None]


class ViolationRecorder:
    """One object of a process, shared by all consumers and listeners. `has_policies`: whether a
    tenant has policies of its own.
    """

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
        self.refused = RefusedRequests(
            self.events.instance, self.violations.note, self.events.lose, clock
        )
        self._alerts = ViolationAlerts(
            alerts, self.events.instance, settings.alerts.every_ms / 1000, clock
        )
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
        """A handler has read a message that violates the contract. `name`: its subscription's;
        None: the id could not be read.
        """
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

    def read_unreadable(
        self, name: str, message: Message, violations: tuple[Violation, ...], kind: MessageType
    ) -> None:
        """The same of a message that its reader refused."""
        named = extract_ids(message, kind)
        self.read(name, message, violations, named.get(TENANT_ID), named.get(TRACE_ID))

    def refuse(
        self, subject: str, what: str, inbox: str, data: bytes, ids: Mapping[str, str]
    ) -> None:
        """The listener refused a request: `what` is the control header, or HEADER_BLOCK; `ids`:
        those that could be read.
        """
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
                await asyncio.sleep(PASSING_COPIES_EVERY_S)
                self.violations.count_passing_copies()


# -- The prefix of a requester's inbox: which role asked, never the tokens by which its answers
# are addressed.
#
# _INBOX.x7Gk….1                    _INBOX                 every client's, where no role has a
# prefix of its own
# _INBOX_gateway.one.x7Gk….1        _INBOX_gateway.one     the gateway `one`
# (deploy/nats/accounts.conf)
#
# An address is chosen by a client, so nothing of it is taken but a name of letters and digits
# between a configured prefix and the 22 random characters that NATS' clients put behind it.

_ROLE = re.compile(r"([a-z0-9][a-z0-9_-]{0,31})\.[A-Za-z0-9]{22}(?:\.|$)")


class InboxPrefixes:
    """`prefixes`: where the router answers to (reply.prefixes)."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = sorted(prefixes, key=len, reverse=True)

    def find(self, inbox: str | None) -> str | None:
        """None: there is no inbox, or it lies outside the prefixes."""
        if not inbox:
            return None
        prefix = next(
            (known_prefix for known_prefix in self._prefixes if inbox.startswith(known_prefix)),
            None,
        )
        if prefix is None or not prefix.endswith("."):
            return prefix
        role = _ROLE.match(inbox, len(prefix)) if prefix != f"{SHARED_INBOX_PREFIX}." else None
        return prefix[:-1] if role is None else prefix + role[1]


# -- The alert, counted over all instances: every instance hears the events of all instances
# (`events`) and counts the messages that they stand for. So all of them find the same event
# that crosses the limit: the instance that published it raises the alert, and none raises
# another one of that subject for a while.

MESSAGES_LIMIT = 10  # messages on one subject within the window
WINDOW_S = 60.0
MAX_ALERT_SUBJECTS = 1_000


class ViolationAlerts:
    """One object of a process. `instance`: the name under which it publishes its events; `every_s`:
    seconds between two alerts.
    """

    def __init__(
        self, alerts: Alerts, instance: str, every_s: float, clock: Clock = steady
    ) -> None:
        self._alerts = alerts
        self._instance = instance
        self._every_s = every_s
        self._clock = clock
        self._quiet_until: dict[str, float] = {}  # by subject
        self._recent: defaultdict[str, deque[tuple[float, ViolationEvent]]] = defaultdict(
            lambda: deque(maxlen=MESSAGES_LIMIT)
        )

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
        if len(self._recent) >= MAX_ALERT_SUBJECTS and event.subject not in self._recent:
            self._recent.clear()
            self._quiet_until.clear()
        recent, now = self._recent[event.subject], self._clock()
        recent.append((now, event))
        while now - recent[0][0] > WINDOW_S:
            recent.popleft()
        if (
            now >= self._quiet_until.get(event.subject, now)
            and sum(earlier.messages for _, earlier in recent) >= MESSAGES_LIMIT
        ):
            if is_own:
                self._alerts.raise_alert(
                    _build_alert(event.subject, [earlier for _, earlier in recent])
                )
            recent.clear()
            self._quiet_until[event.subject] = now + self._every_s


def _build_alert(subject: str, violations: list[ViolationEvent]) -> Alert:
    counts: Counter[tuple[str | None, str, str]] = Counter()
    for event in violations:
        counts[event.tenant_id, event.header, event.rule] += event.messages
    (tenant, header, rule), _ = counts.most_common(1)[0]
    whose = f"tenant {tenant}" if tenant is not None else "a tenant that cannot be read"
    messages = sum(counts.values())
    return Alert(
        severity=WARNING,
        component="router.contract",
        cause=f"contract_violations:{subject}",
        message=(
            f"{messages} messages broke the header contract within a minute, most of {whose}: "
            f"{header} {rule}"
        ),
        metadata={
            "subject": subject,
            **({"tenant_id": tenant} if tenant is not None else {}),
            "header": header,
            "rule": rule,
            "messages": messages,
            "command": f"router contract violations --since 1h --subject {subject} --by tenant,rule",
        },
    )
