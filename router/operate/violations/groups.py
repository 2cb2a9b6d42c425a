"""Reads events of violations, and adds them up: whose they are, of which rule; the worst first,
with an example each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from msgspec import Struct

from router.core.ids import subject_matcher
from router.operate.event_reader import EventReader, StoredEvent
from router.operate.violations.events import ViolationEvent, read_violation

UNREADABLE, SEVERAL = "(not readable)", "(several)"

StoredViolation = StoredEvent[ViolationEvent]


class ViolationFilter(Struct, frozen=True, kw_only=True):
    """Which events; None: any. `subject` may have wildcards, `rule` is `malformed` or
    `trace_id.malformed`.
    """

    tenant: str | None = None
    subject: str | None = None
    rule: str | None = None

    def is_match(self, event: ViolationEvent) -> bool:
        return (
            self.tenant in (None, event.tenant_id)
            and (self.subject is None or subject_matcher((self.subject,))(event.subject))
            and self.rule in (None, event.rule, f"{event.header}.{event.rule}")
        )


class ViolationReader(EventReader[ViolationEvent]):
    def parse(self, data: bytes) -> ViolationEvent:
        return read_violation(data)


def _name_tenant(event: ViolationEvent) -> str:
    return SEVERAL if event.several_tenants else event.tenant_id or UNREADABLE


DIMENSIONS: Mapping[str, Callable[[ViolationEvent], str]] = {
    "tenant": _name_tenant,
    "subject": lambda event: event.subject,
    "rule": lambda event: f"{event.header}.{event.rule}",
    "header": lambda event: event.header,
    "subscription": lambda event: event.subscription,
    "inbox": lambda event: event.inbox_prefix or "",
    "instance": lambda event: event.router_node_id,
}


class ViolationGroup(Struct):
    """Violations that are equal in some dimensions. `example`: the newest event's sequence; the
    times are the server's text.
    """

    of: dict[str, str]
    count: int = 0
    messages: int = 0
    first_seen: str = ""
    last_seen: str = ""
    example: int = 0
    message_id: str | None = None
    trace_id: str | None = None

    def add(self, violation: StoredViolation) -> None:
        event = violation.event
        self.count += event.count
        self.messages += event.messages
        self.first_seen = self.first_seen or violation.stored_at
        self.last_seen, self.example = violation.stored_at, violation.sequence
        self.message_id, self.trace_id = event.message_id, event.trace_id


async def add_up(
    violations: AsyncIterator[StoredViolation], by: Sequence[str]
) -> list[ViolationGroup]:
    """The groups, the one with the most violations first. `by`: names of DIMENSIONS."""
    groups: dict[tuple[str, ...], ViolationGroup] = {}
    async for violation in violations:
        kind = tuple(DIMENSIONS[name](violation.event) for name in by)
        if kind not in groups:
            groups[kind] = ViolationGroup(dict(zip(by, kind, strict=True)))
        groups[kind].add(violation)
    return sorted(groups.values(), key=lambda group: -group.count)
