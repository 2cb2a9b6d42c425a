"""Requests that were answered from their passing copy: their stored copies need nothing but an ack.

A request is counted by hash until its stored copy comes. Only a copy that was stored within
`SAME_REQUEST_WITHIN_S` of the live one counts, not a later request with the same bytes. Two
generations make forgetting the oldest cheap; a stored copy whose request is forgotten is handled
again, with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from router.core.message import Message
from router.delivery.replies.reply_sender import MSG_ID, TENANT

# between hearing the passing copy, by the server's clock as it was read last, and the stored time
SAME_REQUEST_WITHIN_S = 2.0
MAX_MARKS = 300_000  # answered requests whose stored copy has not come yet; some 30 MB


class RepliedRequests:
    """Of one subject on one instance."""

    def __init__(self, most: int = MAX_MARKS) -> None:
        # when the newest passing copy was heard, seconds since the epoch; the processor reads it,
        # nearly always empty
        self.by_hash: dict[int, float] = {}
        # read ahead: sequence -> stored time, ns; bounded by what one run of `ReadAhead` takes
        self.by_sequence: dict[int, int] = {}
        self._old: dict[int, float] = {}
        # of identical requests without an id: how many beyond the first
        self._more: dict[int, int] = {}
        self._old_more: dict[int, int] = {}
        self._most = most // 2  # in a generation

    def add(self, data: bytes, headers: Mapping[str, str], heard_at: float) -> None:
        self.add_key(key_of(data, headers), heard_at, bool(headers.get(MSG_ID)))

    def add_key(self, key: int, heard_at: float, has_id: bool) -> None:
        """A stream stores one copy of an id, but every request without an id."""
        if has_id:
            self.add_ids((key,), heard_at)
        else:
            self.add_bare((key,), heard_at)

    def add_ids(self, keys: Sequence[int], heard_at: float) -> None:
        """`add_key` of requests with an id, at once."""
        self._make_room()
        self.by_hash |= dict.fromkeys(keys, heard_at)

    def add_bare(self, keys: Sequence[int], heard_at: float) -> None:
        """`add_key` of requests without an id, at once."""
        self._make_room()
        by_hash, more = self.by_hash, self._more
        for key in keys:
            if key in by_hash:
                more[key] = more.get(key, 0) + 1
            by_hash[key] = heard_at

    def _make_room(self) -> None:
        if len(self.by_hash) >= self._most:
            self.by_hash, self._old = {}, self.by_hash
            self._more, self._old_more = {}, self._more

    def add_stored(self, message: Message) -> None:
        """A message that was read ahead of its delivery."""
        self.by_sequence[message.sequence] = message.stored_ns

    def take(self, message: Message) -> bool:
        """Whether this stored copy was answered; it is counted off."""
        if self.by_sequence and self.by_sequence.pop(message.sequence, None) == message.stored_ns:
            return True
        if not self.by_hash:
            return False
        key = key_of(message.data, message.headers)
        marks, more = (
            (self._old, self._old_more) if key in self._old else (self.by_hash, self._more)
        )
        heard_at = marks.get(key)
        if heard_at is None:
            return False
        left = more.pop(key, 0) if more else 0
        if left == 0:
            del marks[key]
        elif left > 1:
            more[key] = left - 1
        return abs(message.stored_at - heard_at) <= SAME_REQUEST_WITHIN_S

    def has(self, data: bytes, headers: Mapping[str, str], stored_at: float) -> bool:
        """Whether the copy of a request that was stored at that time, seconds since the epoch, was
        answered. It is not counted off.
        """
        key = key_of(data, headers)
        heard_at = self._old.get(key) or self.by_hash.get(key)
        return heard_at is not None and abs(stored_at - heard_at) <= SAME_REQUEST_WITHIN_S

    def clear(self) -> None:
        self.by_hash.clear()
        self.by_sequence.clear()
        self._old.clear()
        self._more.clear()
        self._old_more.clear()


def key_of(data: bytes, headers: Mapping[str, str]) -> int:
    """The hash of a request's id, tenant header and bytes."""
    return (
        hash((headers.get(MSG_ID) or None, headers.get(TENANT) or None, data))
        if headers
        else hash(data)
    )
