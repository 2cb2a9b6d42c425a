"""Requests that were answered from their live copy: their stored copies need nothing but an ack.

A request is counted by hash until its stored copy comes. Only a copy that was stored within `SAME_REQUEST_WITHIN_S` of the live one
counts, not a later request with the same bytes. Two generations make forgetting the oldest cheap; a stored copy whose request is
forgotten is handled again, with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from router.core.message import Message
from router.delivery.answers import MSG_ID, TENANT

SAME_REQUEST_WITHIN_S = 2.0  # between hearing the live copy and the stored time, on two machines' clocks
MAX_MARKS = 300_000  # answered requests whose stored copy has not come yet; some 40 MB


class AnsweredCopies(Struct, gc=False):
    """`heard_at`: the newest live copy, wall seconds."""

    count: int
    heard_at: float


class AnsweredRequests:
    """Of one subject on one instance."""

    def __init__(self, most: int = MAX_MARKS) -> None:
        self.counts: dict[int, AnsweredCopies] = {}  # read by the processor: empty is the common case
        self._old: dict[int, AnsweredCopies] = {}
        self._most = most // 2  # in a generation

    def add(self, data: bytes, headers: Mapping[str, str], heard_at: float) -> None:
        self.add_key(key_of(data, headers), heard_at, bool(headers.get(MSG_ID)))

    def add_key(self, key: int, heard_at: float, has_id: bool) -> None:
        """A stream stores one copy of an id, but every request without an id."""
        if len(self.counts) >= self._most:
            self.counts, self._old = {}, self.counts
        mark = None if has_id else self.counts.get(key)
        if mark is None:
            self.counts[key] = AnsweredCopies(1, heard_at)
        else:
            mark.count, mark.heard_at = mark.count + 1, heard_at

    def take(self, message: Message) -> bool:
        """Whether this stored copy was answered; it is counted off."""
        key = key_of(message.data, message.headers)
        marks = self._old if key in self._old else self.counts
        mark = marks.get(key)
        if mark is None:
            return False
        mark.count -= 1
        if not mark.count:
            del marks[key]
        return abs(message.stored_at - mark.heard_at) <= SAME_REQUEST_WITHIN_S

    def clear(self) -> None:
        self.counts.clear()
        self._old.clear()


def key_of(data: bytes, headers: Mapping[str, str]) -> int:
    """The hash of a request's id, tenant header and bytes."""
    return hash((headers.get(MSG_ID) or None, headers.get(TENANT) or None, data)) if headers else hash(data)
