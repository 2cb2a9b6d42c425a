"""Counts the violations of requests that the listener refuses and no stream has: once, although
every instance hears them.

    a request is refused         -> the instances tell one another its digest, the digests of some
                                 time in one message
    a while later (`SETTLE_S`)   -> the instance with the lowest name of those that told the digest
                                 counts it

A request that one instance of a group hears (while live copies are answered) is told by that one
alone. An instance that dies in between counts nothing. Instances trust these messages, so only
routers may publish on the subject.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush

from msgspec import Struct

from router.core.clock import Clock, steady
from router.delivery.wire.connection import Connection
from router.operate.violations.windows import BrokenContract

REFUSED = "beamline.router.v1.internal.refused"
TELL_EVERY_S = 0.05
SETTLE_S = 1.0
MAX_PENDING = 10_000  # digests; what is refused above it is lost, and counted as lost
MAX_LINES = 2_000  # of one message
DIGEST_BYTES = 8


class _Refused(Struct):
    """A request that was refused here."""

    broken: BrokenContract
    until: float
    is_anothers: bool
    request: bytes  # digest of its inbox and data
    number: int


class _Numbers(Struct):
    """Which numbers the pending requests of one inbox and the same data have."""

    next: int = 0
    free: list[int] = []  # a heap: those below `next` whose request is counted

    def take(self) -> int:
        """Return the lowest number that is free: the other instances, which hear the same requests,
        find the same.
        """
        if self.free:
            return heappop(self.free)
        self.next += 1
        return self.next - 1


class RefusedRequests:
    """One object of a process. `note` counts one, `lose` what is not counted."""

    def __init__(
        self,
        instance: str,
        note: Callable[[BrokenContract], None],
        lose: Callable[[int], None],
        clock: Clock = steady,
    ) -> None:
        self._instance = instance
        self._note = note
        self._lose = lose
        self._clock = clock
        self._pending: dict[str, _Refused] = {}  # by digest, oldest first
        # digests that another instance counts, and until when they are kept; oldest first
        self._told_by_others: dict[str, float] = {}
        # by the digest of a request: it may be sent again while it is pending
        self._numbers: dict[bytes, _Numbers] = {}
        self._untold: list[str] = []
        self._has_some = asyncio.Event()

    def add(self, inbox: str, data: bytes, broken: BrokenContract) -> None:
        """The listener refused this request."""
        if len(self._pending) >= MAX_PENDING:
            self._lose(1)
            return
        request = blake2b(
            data + f"\x00{inbox}".encode("utf-8", "replace"), digest_size=DIGEST_BYTES
        ).digest()
        number = self._numbers.setdefault(request, _Numbers()).take()
        digest = blake2b(request + b"%d" % number, digest_size=DIGEST_BYTES).hexdigest()
        self._pending[digest] = _Refused(
            broken, self._clock() + SETTLE_S, digest in self._told_by_others, request, number
        )
        self._untold.append(digest)
        self._has_some.set()

    def on_told(self, data: bytes) -> None:
        """Another instance refused these requests too."""
        instance, *digests = data.decode("ascii", "replace").split("\n")[: MAX_LINES + 1]
        if instance >= self._instance:
            return
        for digest in digests:
            if (refused := self._pending.get(digest)) is not None:
                refused.is_anothers = True
            elif len(self._told_by_others) < MAX_PENDING and len(digest) == 2 * DIGEST_BYTES:
                self._told_by_others[digest] = self._clock() + SETTLE_S

    def settle(self, *, is_ending: bool = False) -> None:
        """Count what no other instance counts."""
        now = self._clock()
        while self._pending and (
            is_ending or self._pending[next(iter(self._pending))].until <= now
        ):
            refused = self._pending.pop(next(iter(self._pending)))
            self._free_number(refused)
            if not refused.is_anothers:
                self._note(refused.broken)
        while (
            self._told_by_others
            and self._told_by_others[first := next(iter(self._told_by_others))] <= now
        ):
            del self._told_by_others[first]

    def _free_number(self, refused: _Refused) -> None:
        numbers = self._numbers[refused.request]
        heappush(numbers.free, refused.number)
        if len(numbers.free) == numbers.next:
            del self._numbers[refused.request]

    async def run(self, connection: Connection) -> None:
        sid = await connection.subscribe_direct(
            REFUSED, lambda _subject, _reply, data, _headers: self.on_told(data)
        )
        try:
            while True:
                await self._has_some.wait()
                self._tell(connection)
                self.settle()
                if not self._pending:
                    self._has_some.clear()
                await asyncio.sleep(TELL_EVERY_S)
        finally:
            self._tell(connection)
            self.settle(is_ending=True)
            await connection.unsubscribe(sid)

    def _tell(self, connection: Connection) -> None:
        while self._untold:
            lines, self._untold = self._untold[:MAX_LINES], self._untold[MAX_LINES:]
            connection.publish_nowait(REFUSED, "\n".join((self._instance, *lines)).encode())
