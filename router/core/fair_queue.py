"""A queue that tenants share: each has a bound of its own, and all are served the same time.

    put ── the tenant holds fewer places, and bytes, than are free (times its weight) ──> it waits
        ── it holds less than an equal share of all ───────────────────────────────────> it waits
        └─ it holds more ──> refused: the caller answers `overloaded`
    take ── the tenant that was served the least time since it joined the round ──> its next item
    charge ── the item that was taken last has cost more than its size told ──> its tenant's turn comes later
    of a tenant, what goes first ─> before its other items; of five turns of the tenant that has both, one is for the others

What goes first takes no turn and no place of another tenant. `put_instead` gives it the place of
the newest other item of its tenant, and the others keep a fifth of the places that their tenant
holds: both kinds go on, however many come of either.

A lone tenant may fill half of the queue (dynamic thresholds, Choudhury and Hahne 1998,
https://doi.org/10.1109/90.664262). Many would halve what is free until nothing is, so an equal
share of the whole is any tenant's.

Turns are of time, not of items (start-time fair queueing, Goyal and others 1996,
https://doi.org/10.1109/90.649569): the time that a tenant was served is its place in the round, so
an item is paid for when its cost is known. While tenants wait, none is ahead of another by more
than its own dearest item. One that joins begins where the round is, before a hundred that flood
(sparse flows, RFC 8290, https://www.rfc-editor.org/rfc/rfc8290), and waits for at most one item of
each. One that leaves keeps its debt until the round has got there, so it gains nothing by asking
one at a time. A call costs the logarithm of the number of tenants.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from itertools import count
from types import MappingProxyType
from typing import Generic, TypeVar

from msgspec import Struct, field

T = TypeVar("T")

# Seconds: what an item costs at least, and a byte of it. What a handler needs is charged.
ITEM_S, BYTE_S = 20e-6, 5e-9
MOST_S = 1.0  # of one charge: a process that was stopped for a minute is no tenant's debt
# that came after the first of the round; then this one is served, however many new names come
NEWCOMERS_IN_ROW = 4
FIRST_IN_ROW = 4  # items that go first, then one of the others of the tenant
PARTS = FIRST_IN_ROW + 1
# as many places at most: each newcomer makes the equal share smaller, and takes no place away
MAX_SHARE_FACTOR = 4
NO_WEIGHTS: Mapping[str, int] = MappingProxyType({})


class QueuedItem(Struct, Generic[T], gc=False):
    item: T
    size: int


class TenantQueue(Struct, Generic[T], eq=False):
    """What waits of one tenant, and the time that it was served, by its weight."""

    tenant: str
    weight: int
    served_s: float
    joined: int  # in which order
    entered: int = 0  # in which order it was put into the round, or beside it, last
    first: deque[QueuedItem[T]] = field(default_factory=deque)
    others: deque[QueuedItem[T]] = field(default_factory=deque)
    count: int = 0
    size: int = 0
    in_row: int = 0  # items that went first while others waited, since the last of those

    @property
    def line(self) -> deque[QueuedItem[T]]:
        """Which of both is served next; neither may be, of a tenant that holds nothing."""
        return (
            self.first
            if self.first and (not self.others or self.in_row < FIRST_IN_ROW)
            else self.others
        )

    def gives_way(self, *, goes_first: bool) -> bool:
        """Whether one of the other kind leaves its place: the others keep a fifth, and take it
        back.
        """
        others = len(self.others)
        return (others - 1) * PARTS >= self.count if goes_first else others * PARTS < self.count

    def pop(self) -> QueuedItem[T]:
        line = self.line
        self.in_row = self.in_row + 1 if line is self.first and self.others else 0
        queued = line.popleft()
        self.size -= queued.size
        self.count -= 1
        return queued


class FairQueue(Generic[T]):
    """At most `places` items of `max_bytes` together, with equal shares MAX_SHARE_FACTOR times as
    much. No weight: 1.
    """

    def __init__(
        self, places: int, max_bytes: int, weights: Mapping[str, int] = NO_WEIGHTS
    ) -> None:
        self._places = self._free_places = places
        self._bytes = max_bytes
        self._free_bytes = max_bytes
        self._weights = weights
        # those that wait, and those that have a debt
        self._tenants: dict[str, TenantQueue[T]] = {}
        # of these, those that were not served since they joined, in the order of their coming
        self._newcomers: deque[TenantQueue[T]] = deque()
        # and all others that wait, a heap: the one that was served the least time first
        self._round: list[tuple[float, int, TenantQueue[T]]] = []
        # those that wait for nothing and have a debt, likewise; some have come back since
        self._debts: list[tuple[float, int, TenantQueue[T]]] = []
        self._order = count()
        self._in_row = 0  # newcomers
        self._time = 0.0  # where the round is
        # whose item was taken last, and what it has paid for that; it is in no round meanwhile
        self._served: TenantQueue[T] | None = None
        self._paid_s = 0.0
        self._waiting = 0  # tenants
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, tenant: str, item: T, size: int, *, goes_first: bool = False) -> bool:
        """Queue an item of so many bytes. False: its tenant's share is taken."""
        if not self.has_room(tenant, size):
            return False
        queue = self._tenants.get(tenant)
        if queue is None:
            weight = self._weights.get(tenant, 1)
            queue = TenantQueue(tenant, weight, self._time, next(self._order))
            self._tenants[tenant] = queue
            self._newcomers.append(queue)
            self._waiting += 1
        elif not queue.count:
            self._waiting += 1
            queue.served_s = max(queue.served_s, self._time)  # idle time is no credit
            if queue is not self._served:
                heappush(self._round, (queue.served_s, queue.entered, queue))
        self._add(queue, QueuedItem(item, size), goes_first=goes_first)
        return True

    def put_instead(self, tenant: str, item: T, size: int, *, goes_first: bool = False) -> T | None:
        """Queue an item in the place of the newest of its tenant's other kind, which is returned.
        None: it is not queued.
        """
        queue = self._tenants.get(tenant)
        if queue is None or not queue.count or not queue.gives_way(goes_first=goes_first):
            return None
        newest = (queue.others if goes_first else queue.first).pop()
        self._count(queue, -newest.size, -1)
        if not self.has_room(tenant, size):
            self._add(queue, newest, goes_first=not goes_first)
            return None
        self._add(queue, QueuedItem(item, size), goes_first=goes_first)
        return newest.item

    def gives_way(self, tenant: str, *, goes_first: bool) -> bool:
        """Whether `put_instead` may find a place."""
        queue = self._tenants.get(tenant)
        return queue is not None and queue.count > 0 and queue.gives_way(goes_first=goes_first)

    def _add(self, queue: TenantQueue[T], queued: QueuedItem[T], *, goes_first: bool) -> None:
        (queue.first if goes_first else queue.others).append(queued)
        self._count(queue, queued.size, 1)

    def _count(self, queue: TenantQueue[T], size: int, places: int) -> None:
        queue.size += size
        queue.count += places
        self._free_places -= places
        self._free_bytes -= size
        self._length += places

    def has_room(self, tenant: str, size: int) -> bool:
        """Whether `put` would queue an item of so many bytes."""
        queue, weight = self._tenants.get(tenant), self._weights.get(tenant, 1)
        places, used = (queue.count, queue.size) if queue is not None else (0, 0)
        if (
            places < weight * self._free_places
            and size <= self._free_bytes
            and used + size <= weight * self._free_bytes
        ):
            return True
        # all that wait, this one, and one that may come
        parts = self._waiting + (1 if places else 2)
        if parts * places >= weight * self._places or parts * (used + size) > weight * self._bytes:
            return False
        beyond = MAX_SHARE_FACTOR - 1
        return (
            self._free_places > -beyond * self._places
            and self._free_bytes - size >= -beyond * self._bytes
        )

    def take(self) -> T | None:
        """The next item, or None when nothing waits."""
        self._return_tenant()
        queue = self._pop_next()
        return None if queue is None else self._serve(queue)

    def take_of(self, is_ready: Callable[[str], bool]) -> T | None:
        """The next item of the next tenant that is ready for one; None when none is. Costs a look at
        each tenant; those that are not ready keep their turns and their debts.
        """
        self._return_tenant()
        newcomers, entries = self._newcomers, self._round
        place = next((at for at, new in enumerate(newcomers) if is_ready(new.tenant)), None)
        entry = min((entry for entry in entries if is_ready(entry[2].tenant)), default=None)
        if entry is None and place is None:
            return None
        if place is not None and (entry is None or self._is_before(newcomers[place], entry)):
            queue = newcomers[place]
            del newcomers[place]
            self._in_row += 1
        else:
            assert entry is not None  # one of both is there  # noqa: S101
            entries.remove(entry)
            heapify(entries)
            queue = self._go_to(entry)
        return self._serve(queue)

    def charge(self, seconds: float) -> None:
        """The item that was taken last has cost so much, in all."""
        more = min(seconds, MOST_S) - self._paid_s
        if self._served is not None and more > 0.0:
            self._served.served_s += more / self._served.weight
            self._paid_s += more

    def has_waiting(self, tenant: str) -> bool:
        queue = self._tenants.get(tenant)
        return queue is not None and queue.count > 0

    def _pop_next(self) -> TenantQueue[T] | None:
        others, newcomers = self._round, self._newcomers
        if newcomers and (not others or self._is_before(newcomers[0], others[0])):
            self._in_row += 1
            return newcomers.popleft()
        return self._go_to(heappop(others)) if others else None

    def _is_before(
        self, newcomer: TenantQueue[T], other: tuple[float, int, TenantQueue[T]]
    ) -> bool:
        return self._in_row < NEWCOMERS_IN_ROW or newcomer.joined < other[1]

    def _go_to(self, entry: tuple[float, int, TenantQueue[T]]) -> TenantQueue[T]:
        """The round gets to this one: the debts until there are paid."""
        at, _, queue = entry
        self._time, self._in_row = max(self._time, at), 0
        while self._debts and self._debts[0][0] <= self._time:
            _, entered, idle = heappop(self._debts)
            if entered == idle.entered and not idle.count and idle is not queue:
                del self._tenants[idle.tenant]
        return queue

    def _serve(self, queue: TenantQueue[T]) -> T:
        queued = queue.pop()
        self._free_places += 1
        self._free_bytes += queued.size
        self._length -= 1
        self._waiting -= not queue.count
        self._served, self._paid_s = queue, ITEM_S + queued.size * BYTE_S
        queue.served_s += self._paid_s / queue.weight
        return queued.item

    def _return_tenant(self) -> None:
        """Put the tenant whose item was taken last into the round, with its debt."""
        queue, self._served = self._served, None
        if queue is None:
            return
        if not self._length:
            self._forget()
            return
        if queue.count or len(self._tenants) - self._waiting <= self._places:
            queue.entered = next(self._order)
            place = self._round if queue.count else self._debts
            heappush(place, (queue.served_s, queue.entered, queue))
        else:
            del self._tenants[queue.tenant]

    def _forget(self) -> None:
        """No tenant waits, so none has a debt."""
        self._tenants.clear()
        self._newcomers.clear()
        self._round.clear()
        self._debts.clear()
        self._time = 0.0
        self._in_row = 0
