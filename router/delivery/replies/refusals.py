"""Refuse requests above the share of their tenant, straight from the bytes of the socket.

Other tenants' requests wait in the socket behind those of a flood, so a flood must be refused as
fast as it is read. `take` goes through the frames of a chunk by itself: of a request it reads the
inbox, the message id and the ids of the body, and it makes no object that a refusal does not need.
It stops at the first frame that is not so plain, or that may find room. The parser passes that one
to `PassingRequests.on_request`, and calls `take` again behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from router.core.clock import Clock, wall
from router.delivery.replies.overload import Overload, Share
from router.delivery.replies.replied_requests import RepliedRequests, key_of
from router.delivery.replies.reply_sender import MSG_ID, ReplySender
from router.delivery.wire.frames import PlainFrames

SHARED_TIME_S = 0.01  # refusals within it are kept with one time, which is one object
MAX_COUNTED_TENANTS = 1024  # tenants whose refusals are reported together


class PassingAsker(Protocol):
    """A request's tenant, and what else `glance` and `describe` read of it."""

    @property
    def tenant_id(self) -> str: ...


A = TypeVar("A", bound=PassingAsker)


class AskerReader(Protocol[A]):
    """Says whose request it is, and how it is refused."""

    def describe(self, data: bytes, headers: Mapping[str, str]) -> A | None:
        """None: only its stored copy can be handled."""

    def glance(self, data: bytes) -> A | None:
        """The same of a request with no header but an id, at a third of the cost, for a flood.

        None: call `describe`.
        """

    def find_place(self, tenant: str) -> str:
        """Whose turn the tenant's requests take: its own, or one that it shares."""

    def is_high(self, asker: A) -> bool:
        """Whether it goes first of what waits of its tenant."""

    def refuse(self, asker: A, retry_after_ms: int) -> bytes:
        """The answer to a request above its tenant's share."""


class Refusals(Generic[A]):
    """For one subject on one instance. `on_refused` gets a tenant, and how many of its requests
    were refused since it was last called.
    """

    def __init__(
        self,
        replies: ReplySender,
        marks: RepliedRequests,
        overload: Overload,
        askers: AskerReader[A],
        *,
        may_find_room: Callable[[Share, int], bool],
        on_refused: Callable[[str, int], None],
        clock: Clock = wall,
    ) -> None:
        self._replies = replies
        self._marks = marks
        self._overload = overload
        self._glance = askers.glance
        self._find_place = askers.find_place
        self._is_high = askers.is_high
        self._refuse = askers.refuse
        self._may_find_room = may_find_room
        self._on_refused = on_refused
        self._full: set[Share] = set()  # those without room
        self._counts: dict[str, int] = {}  # by tenant, not reported yet
        self._at = 0.0  # of `clock`
        self._clock = clock
        self.is_allowed = True  # whether the subject is served

    def take(self, frames: PlainFrames, chunk: bytes, at: int) -> int:
        """Refuse what follows in a chunk; returns the offset of the first request that `on_request`
        must handle.
        """
        if not frames.is_at(chunk, at):
            return at  # the frame of another subscription: each frame of the connection passes here
        refuses = self._overload.refuses and self.is_allowed
        glance, find_place, is_high, may_reply, full, counts = (
            self._glance,
            self._find_place,
            self._is_high,
            self._replies.may_reply,
            self._full,
            self._counts,
        )
        refuse, retry_after_ms = self._refuse, self._overload.retry_after_ms
        told: list[tuple[bytes, bytes]] = []
        keys: list[int] = []
        bare: list[int] = []
        for inbox, data, msg_id, after in frames.read(chunk, at):
            try:
                if inbox is None:
                    self._replies.pass_over(
                        None if msg_id is None else msg_id.decode("ascii"), data
                    )
                    at = after
                    continue
                if not refuses or (asker := glance(data)) is None:
                    break
                tenant = asker.tenant_id
                share = find_place(tenant), is_high(asker)
                if (share not in full and self._has_room(share, data)) or not may_reply(inbox):
                    break
                told.append((inbox, refuse(asker, retry_after_ms)))
                if msg_id is None:
                    bare.append(hash(data))
                else:
                    keys.append(hash((msg_id.decode("ascii"), None, data)))
                counts[tenant] = counts.get(tenant, 0) + 1
            except (Exception, asyncio.CancelledError) as exc:
                # it costs this message, and the reader goes on
                self._replies.on_fault(exc)
            at = after
        if told:
            self._replies.send_many(told)
            self._mark(keys, bare)
        return at

    def _has_room(self, share: Share, data: bytes) -> bool:
        if self._may_find_room(share, len(data)):
            return True
        self._full.add(share)
        return False

    def add(self, asker: A, inbox: bytes, data: bytes, headers: Mapping[str, str]) -> None:
        """Answer `overloaded` to one request."""
        self._replies.send_many(((inbox, self._refuse(asker, self._overload.retry_after_ms)),))
        self._counts[asker.tenant_id] = self._counts.get(asker.tenant_id, 0) + 1
        key = key_of(data, headers)
        if headers.get(MSG_ID):
            self._mark((key,), ())
        else:
            self._mark((), (key,))

    def _mark(self, keys: Sequence[int], bare: Sequence[int]) -> None:
        """The stored copies need nothing but an ack."""
        now = self._clock()
        if abs(now - self._at) > SHARED_TIME_S:
            self._at = now
        if keys:
            self._marks.add_ids(keys, self._at)
        if bare:
            self._marks.add_bare(bare, self._at)
        if len(self._counts) > MAX_COUNTED_TENANTS:
            self.report()

    def forget_full(self) -> None:
        """An item was taken out of the queue."""
        self._full.clear()

    def report(self) -> None:
        for tenant, count in self._counts.items():
            self._on_refused(tenant, count)
        self._counts.clear()
