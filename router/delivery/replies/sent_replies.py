"""Remember answered requests while passing copies are answered, so that a request's other copy sends
no second answer.

    switch ─> the other instances hear that passing copies are answered, and tell what they answer
    note ──> kept here, and sent to the other instances at the end of this turn of the event loop ──> on_answered
    has  ──> called before an answer is sent, for a stored copy or a live one

A request is identified by its inbox, a checksum of its bytes, and its time, because an inbox may be
used for many requests. Instances trust these messages, so only routers may publish on the subject.
Entries are kept for 10 to 20 seconds, and bounded in number: a request that is forgotten gets the
same answer twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from secrets import token_hex
from zlib import crc32

from router.core.clock import Clock, wall

MAX_ANSWERS = 100_000  # entries in each of two generations, two for a request: some 25 MB together
KEEP_S = 10.0
MAX_LINES = 2_000  # of one message
MAX_LINE_LENGTH = 544  # characters: an inbox has at most 500 bytes
MAX_TOLD = 64 * 1024  # characters of one message, far below the server's max_payload


class SentReplies:
    """For one subject on one instance."""

    def __init__(self, publish: Callable[[bytes], None], clock: Clock = wall) -> None:
        self._publish = publish
        self._clock = clock
        self.instance = token_hex(8)  # it ignores its own messages
        self._own = self.instance.encode()
        # checksums, and hashes of inbox and checksum -> seconds since the epoch
        self._young: dict[int, float] = {}
        self._old: dict[int, float] = {}
        self._generation_at = 0.0
        self._has_heard = False  # another instance, in this generation
        self._lines: list[str] = []
        self._told = 0  # characters of these inboxes
        self.is_on = False  # this instance answers passing copies
        # an instance answers passing copies, or did lately; a plain attribute, because each answer
        # reads it
        self.is_used = False

    def note(self, inbox: str, request: bytes) -> None:
        """This request is being answered."""
        checksum = crc32(request)
        self._add(inbox, checksum, self._clock())
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._tell)
        self._lines.append(f"{checksum} {inbox}")
        self._told += len(inbox)
        if self._told >= MAX_TOLD or len(self._lines) >= MAX_LINES:
            self._tell()

    def has(self, inbox: str, request: bytes, since: float) -> bool:
        """Whether it was answered after `since`, seconds since the epoch: the time when this copy
        was stored, or heard.
        """
        return self._is_after(hash((inbox, crc32(request))), since)

    def has_request(self, request: bytes, since: float) -> bool:
        """Whether an inbox got the answer to these bytes: then the reply subject gets none."""
        return self._is_after(crc32(request), since)

    @property
    def is_empty(self) -> bool:
        """No request was answered from its passing copy lately, here or elsewhere."""
        return not (self._young or self._old)

    def _is_after(self, named: int, since: float) -> bool:
        at = self._young.get(named) or self._old.get(named)
        return at is not None and at >= since

    def on_answered(self, data: bytes) -> None:
        """Another instance's answers; malformed lines are ignored."""
        if data.startswith(self._own):
            return
        if len(data) == len(self._own) and data.isalnum():  # it begins with passing copies
            self._has_heard = self.is_used = True
        now = self._clock()
        _, *lines = data.decode("utf-8", "replace").split("\n")[: MAX_LINES + 1]
        for line in lines:
            checksum, _, inbox = line.partition(" ")
            if (
                len(line) <= MAX_LINE_LENGTH
                and inbox
                and checksum.isascii()
                and checksum.isdecimal()
                and len(checksum) <= 10
            ):
                self._add(inbox, int(checksum), now)

    def switch(self, is_on: bool) -> None:
        """Start or stop answering passing copies."""
        if is_on and not self.is_on:
            self._publish(self._own)
        self.is_on = is_on
        self.is_used = is_on or self._has_heard or bool(self._young or self._old)

    def tick(self, now: float) -> None:
        """Called some fifty times a second."""
        if now - self._generation_at >= KEEP_S:
            self._start_generation(now)

    def _add(self, inbox: str, checksum: int, now: float) -> None:
        if len(self._young) >= MAX_ANSWERS:
            self._start_generation(self._generation_at)
        self._young[hash((inbox, checksum))] = self._young[checksum] = now
        self.is_used = True

    def _start_generation(self, now: float) -> None:
        self._old, self._young, self._generation_at = self._young, {}, now
        self.is_used = self.is_on or self._has_heard or bool(self._old)
        self._has_heard = False

    def _tell(self) -> None:
        if self._lines:
            self._publish("\n".join((self.instance, *self._lines)).encode())
            self._lines, self._told = [], 0
