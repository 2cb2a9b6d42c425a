"""Which violations of a minute get an event of their own; the others are added up. No I/O, no
clock.

    a tenant, subject, header and rule  ->  a window: its first `per_minute` violations get events,
                                            one more event stands for the rest
    too many windows                    ->  further tenants share one for each subject, header and
                                            rule

Tenant ids are a client's to choose. So half of the windows is for tenants that the operator named:
made-up ones cannot take their names from the events. And of all events of a minute only the first
of each window are certain, so that no flood of tenants empties the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from router.contracts.header_rules import Violation

MAX_WINDOWS = 4_096  # half of them for known tenants only
# in a minute, beyond the first one of each window and the one that stands for its rest
MAX_EVENTS = 2_000
_SHARED = "*"  # no tenant's id

GroupKey = tuple[str | None, str, tuple[Violation, ...]]


class BrokenContract(Struct, gc=False, kw_only=True):
    """What one message broke: ids, never a payload or the value of another header. `sequence` 0: no
    stream has the message.
    """

    subscription: str
    subject: str
    violations: tuple[Violation, ...]
    tenant_id: str | None
    trace_id: str | None
    message_id: str | None
    inbox_prefix: str | None
    stream: str = ""
    sequence: int = 0
    stored_ns: int = 0
    is_old: bool = False  # kept for a while


class ViolationWindow(Struct):
    """One tenant, subject, header and rule within a minute."""

    last: BrokenContract
    violation: Violation
    is_shared: bool
    inbox_prefix: str | None = None  # of the newest message whose requester was looked for
    events: int = 0
    count: int = 0  # violations that no event stands for yet
    messages: int = 0

    def clear(self) -> None:
        """An event stands for all until now."""
        self.count = self.messages = 0


class _Group(Struct):
    """The windows of messages that are equal in tenant, subject and all that they break: found at
    once.
    """

    windows: tuple[ViolationWindow, ...]
    is_full: bool = False


class ViolationWindows:
    """One object of a process. `is_known`: whether the operator named a tenant."""

    def __init__(self, per_minute: int, is_known: Callable[[str], bool]) -> None:
        self._per_minute = per_minute
        self._is_known = is_known
        self._windows: dict[tuple[str | None, str, Violation], ViolationWindow] = {}
        self._groups: dict[GroupKey, _Group] = {}
        self._events = 0

    def __len__(self) -> int:
        return len(self._windows)

    def is_full(self, key: GroupKey) -> bool:
        """Whether such a message gets no event of its own for the rest of the minute: what only
        events need is not looked for.
        """
        group = self._groups.get(key)
        return group is not None and group.is_full

    def add(self, broken: BrokenContract, *, has_room: bool) -> Sequence[ViolationWindow]:
        """Count one message. Returns the windows that get an event now; `has_room`: whether one can
        be taken at all.
        """
        group = self._groups.get(
            (broken.tenant_id, broken.subject, broken.violations)
        ) or self._make_group(broken)
        is_first = True
        for window in group.windows:
            window.last = broken
            window.count += 1
            window.messages += is_first
            is_first = False
        return self._choose(group) if has_room and not group.is_full else ()

    def end_minute(self) -> list[ViolationWindow]:
        """Begin a new minute. Returns the windows with violations that no event stands for."""
        left = [window for window in self._windows.values() if window.count]
        self._windows.clear()
        self._groups.clear()
        self._events = 0
        return left

    def _choose(self, group: _Group) -> Sequence[ViolationWindow]:
        is_spent = self._events >= MAX_EVENTS
        chosen = [
            window
            for window in group.windows
            if window.events < (1 if is_spent else self._per_minute)
        ]
        for window in chosen:
            window.events += 1
            window.inbox_prefix = window.last.inbox_prefix
        self._events += sum(window.events > 1 for window in chosen)
        group.is_full = not chosen
        return chosen

    def _make_group(self, broken: BrokenContract) -> _Group:
        group = _Group(
            tuple([self._find_window(broken, violation) for violation in broken.violations])
        )
        if len(self._groups) < MAX_WINDOWS:
            self._groups[broken.tenant_id, broken.subject, broken.violations] = group
        return group

    def _find_window(self, broken: BrokenContract, violation: Violation) -> ViolationWindow:
        key = (broken.tenant_id, broken.subject, violation)
        is_shared = key not in self._windows and not self._has_room(broken.tenant_id)
        if is_shared:
            key = (_SHARED, *key[1:])
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = ViolationWindow(broken, violation, is_shared)
        return window

    def _has_room(self, tenant_id: str | None) -> bool:
        """Messages whose tenant cannot be read are as one tenant."""
        is_known = tenant_id is None or self._is_known(tenant_id)
        return len(self._windows) < (MAX_WINDOWS if is_known else MAX_WINDOWS // 2)
