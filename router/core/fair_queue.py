"""A queue that tenants share: each has a bound of its own, and they are served in turn, by weight.

    put ── the tenant holds fewer places, and bytes, than are free (times its weight) ──> it waits
        ── it holds less than an equal share of all ───────────────────────────────────> it waits
        └─ it holds more ──> refused: the caller answers `overloaded`
    take ── a tenant that held nothing ──> its first item, before the round of the others; of five items at most four are such
         ── deficit round robin ────────> the next item; a large one costs its tenant more turns
    of a tenant, what goes first ─> before its other items; of five turns of the tenant that has both, one is for the others

What goes first takes no turn and no place of another tenant. `put_instead` gives it the place of
the newest other item of its tenant, and the others keep a fifth of the places that their tenant
holds: both kinds go on, however many come of either.

A lone tenant may fill half of the queue (dynamic thresholds, Choudhury and Hahne 1998,
https://doi.org/10.1109/90.664262). Many would halve what is free until nothing is, so an equal
share of the whole is any tenant's. A tenant that asks now and then need not wait for a round of a
hundred that flood (sparse flows, RFC 8290, https://www.rfc-editor.org/rfc/rfc8290). Both calls cost
the same however many tenants wait (deficit round robin, Shreedhar and Varghese 1996,
https://doi.org/10.1109/90.502236).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from msgspec import Struct, field

T = TypeVar("T")

COST_BYTES = 65_536  # one turn serves an item of up to so many bytes; one of 1 MiB takes seventeen
NEWCOMERS_IN_ROW = 4  # then one of the round is served, however many new names a flood makes up
FIRST_IN_ROW = 4  # items that go first, then one of the others of the tenant
PARTS = FIRST_IN_ROW + 1
# as many places at most: each newcomer makes the equal share smaller, and takes no place away
MAX_SHARE_FACTOR = 4
NO_WEIGHTS: Mapping[str, int] = MappingProxyType({})


class QueuedItem(Struct, Generic[T], gc=False):
    item: T
    size: int

    @property
    def cost(self) -> int:
        return 1 + self.size // COST_BYTES


class TenantQueue(Struct, Generic[T]):
    """What waits of one tenant, and the turns that it has saved."""

    first: deque[QueuedItem[T]] = field(default_factory=deque)
    others: deque[QueuedItem[T]] = field(default_factory=deque)
    size: int = 0
    deficit: int = 0
    in_row: int = 0  # items that went first while others waited, since the last of those

    def __len__(self) -> int:
        return len(self.first) + len(self.others)

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
        return (others - 1) * PARTS >= len(self) if goes_first else others * PARTS < len(self)

    def pop(self) -> QueuedItem[T]:
        line = self.line
        self.in_row = self.in_row + 1 if line is self.first and self.others else 0
        queued = line.popleft()
        self.deficit -= queued.cost
        self.size -= queued.size
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
        # those that wait; the next to be served first
        self._tenants: OrderedDict[str, TenantQueue[T]] = OrderedDict()
        # those that held nothing before, until their first turn
        self._newcomers: OrderedDict[str, None] = OrderedDict()
        self._in_row = 0  # newcomers that were served one after the other
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, tenant: str, item: T, size: int, *, goes_first: bool = False) -> bool:
        """Queue an item of so many bytes. False: its tenant's share is taken."""
        if not self.has_room(tenant, size):
            return False
        queue = self._tenants.get(tenant)
        if queue is None:
            queue = self._tenants[tenant] = TenantQueue()
            self._newcomers[tenant] = None
        self._add(queue, QueuedItem(item, size), goes_first=goes_first)
        return True

    def put_instead(self, tenant: str, item: T, size: int, *, goes_first: bool = False) -> T | None:
        """Queue an item in the place of the newest of its tenant's other kind, which is returned.
        None: it is not queued.
        """
        queue = self._tenants.get(tenant)
        if queue is None or not queue.gives_way(goes_first=goes_first):
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
        return queue is not None and queue.gives_way(goes_first=goes_first)

    def _add(self, queue: TenantQueue[T], queued: QueuedItem[T], *, goes_first: bool) -> None:
        (queue.first if goes_first else queue.others).append(queued)
        self._count(queue, queued.size, 1)

    def _count(self, queue: TenantQueue[T], size: int, places: int) -> None:
        queue.size += size
        self._free_places -= places
        self._free_bytes -= size
        self._length += places

    def has_room(self, tenant: str, size: int) -> bool:
        """Whether `put` would queue an item of so many bytes."""
        queue, weight = self._tenants.get(tenant), self._weights.get(tenant, 1)
        places, used = (len(queue), queue.size) if queue is not None else (0, 0)
        if (
            places < weight * self._free_places
            and size <= self._free_bytes
            and used + size <= weight * self._free_bytes
        ):
            return True
        # all that wait, this one, and one that may come
        parts = len(self._tenants) + (1 if queue is not None else 2)
        if parts * places >= weight * self._places or parts * (used + size) > weight * self._bytes:
            return False
        beyond = MAX_SHARE_FACTOR - 1
        return (
            self._free_places > -beyond * self._places
            and self._free_bytes - size >= -beyond * self._bytes
        )

    def take(self) -> T | None:
        """The next item, or None when nothing waits."""
        while self._tenants:
            tenant = self._next_tenant()
            queue = self._tenants[tenant]
            cost = queue.line[0].cost
            if queue.deficit < cost:
                queue.deficit += self._weights.get(tenant, 1)
            if queue.deficit >= cost:
                return self._pop(tenant, queue)
            self._tenants.move_to_end(tenant)
        return None

    def _next_tenant(self) -> str:
        if self._newcomers and self._in_row < NEWCOMERS_IN_ROW:
            self._in_row += 1
            return self._newcomers.popitem(last=False)[0]
        self._in_row = 0
        tenant = next(iter(self._tenants))
        self._newcomers.pop(tenant, None)
        return tenant

    def take_of(self, is_ready: Callable[[str], bool]) -> T | None:
        """The next item of the next tenant that is ready for one; None when none is. Sizes cost no
        turns here.
        """
        tenant = next(filter(is_ready, self._tenants), None)
        if tenant is None:
            return None
        queue = self._tenants[tenant]
        queue.deficit = queue.line[0].cost
        return self._pop(tenant, queue)

    def has_waiting(self, tenant: str) -> bool:
        return tenant in self._tenants

    def _pop(self, tenant: str, queue: TenantQueue[T]) -> T:
        queued = queue.pop()
        self._free_places += 1
        self._free_bytes += queued.size
        self._length -= 1
        if not len(queue):
            del self._tenants[tenant]  # an idle tenant saves no turns
            self._newcomers.pop(tenant, None)
        elif queue.deficit < queue.line[0].cost:
            self._tenants.move_to_end(tenant)
        return queued.item
