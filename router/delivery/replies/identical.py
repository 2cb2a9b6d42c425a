"""Which inbox a stored copy answers, if several requests without ids have the same bytes.

Every instance hears all requests, but decides only some stored copies, and a stored copy does not
name its requester. If each instance answered every inbox with the same bytes, N instances would
give N answers. But all of them hear the requests nearly in the order of the stream:

    heard as number 7, `shift` 40   -> stored as sequence 47, so the copy at sequence 47 answers the
                                    inbox heard as number 7
    an inbox is answered            -> the other instances are told, and forget it
    an inbox stays unanswered       -> the first instance that looks again answers it

The shift is learned when the listener starts and from each request with unique bytes. While it is
wrong, an inbox is answered twice, or `SECOND_LOOK_S` late; none stays without an answer. An
instance that hears no other instance answers all inboxes at once. Instances trust these messages,
so only routers may publish on the subject.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from math import inf
from zlib import crc32

from msgspec import Struct

from router.core.clock import spread

ANNOUNCE_EVERY_S = 7.0
# instances that announced themselves lately: then all have heard another one, and the rest keep
# silent
MIN_ANNOUNCING = 2
ALONE_AFTER_START_S = 1.0  # without another instance since the start, this one is the only one
ALONE_AFTER_SILENCE_S = 15.0  # without a message for so long, another instance is gone
SECOND_LOOK_S = 0.25  # an inbox that is still unanswered is answered after one to two times this
MAX_REPEATED = 10_000  # different contents of identical requests
# of answers that wait for the second look; above it all inboxes are answered at once
MAX_WATCHED_BYTES = 8 * 1024 * 1024
# places to each side in which an inbox that another instance answered is searched
SEARCH_DISTANCE = 16
MAX_LINES = 2_000  # of one message
MAX_LINE_LENGTH = 544  # characters: an inbox has at most 500 bytes, and two numbers stand before it
# characters of one message, far below the server's max_payload: above it the server would close the
# connection
MAX_TOLD = 64 * 1024


# A hash of the Nats-Msg-Id, or of the whole request when it has none.
CorrelationKey = int


class WaitingInbox(Struct, frozen=True, gc=False):
    """An inbox that the listener heard, and that waits for its answer.

    Made once a request: a struct costs what a tuple does, and the garbage collector passes it by.
    """

    inbox: str
    # When it was heard.
    at: float
    content_hash: int
    # Of the request, among all that were heard; 0: none.
    number: int = 0
    # The request, if its id came with other content before; else empty.
    kept: bytes = b""


class IdenticalRequests:
    """For one subject on one instance. `tell` sends lines to the other instances."""

    def __init__(self, tell: Callable[[list[str]], None]) -> None:
        self._tell = tell
        self._second_look_s = SECOND_LOOK_S * (1 + random.random())  # noqa: S311 - so that instances do not look all at once
        # by checksum of the bytes: other instances know the checksum
        self._keys: OrderedDict[int, CorrelationKey] = OrderedDict()
        self.repeated: set[CorrelationKey] = set()
        # checksum, answer, when to look again
        self._watched: OrderedDict[CorrelationKey, tuple[int, bytes, float]] = OrderedDict()
        self._watched_bytes = 0
        # when another instance was heard; None: this one has just started
        self._others_at: float | None = None
        # answered while no other request had its bytes
        self.first_ones: OrderedDict[CorrelationKey, WaitingInbox] = OrderedDict()
        self._lines: list[str] = []
        self._told = 0  # characters of these lines
        # other instances that were heard since this one announced itself, or kept silent
        self._announcing: set[str] = set()
        self._announced_at = -inf
        self._pause = spread(ANNOUNCE_EVERY_S)
        self._learned: int | None = None
        # a request's sequence in the stream minus its number among the heard requests
        self.shift: int | None = None

    def meet_other(self, instance: str, now: float) -> None:
        """Another instance sent something. If it is the first, this one announces itself at once."""
        if self.is_alone(now):
            self._announced_at = -inf
        self._others_at = now
        if len(self._announcing) < MIN_ANNOUNCING:
            self._announcing.add(instance)

    def is_alone(self, now: float) -> bool:
        return self._others_at is not None and now - self._others_at >= ALONE_AFTER_SILENCE_S

    def keep_first(self, key: CorrelationKey, waiting: WaitingInbox, now: float) -> None:
        """Its inbox is answered; the other instances are told only if another request has the same
        bytes (`on_repeat`).
        """
        if not self.is_alone(now):
            self.first_ones.pop(key, None)
            self.first_ones[key] = waiting
            if len(self.first_ones) > MAX_REPEATED:
                self.first_ones.popitem(last=False)

    def on_repeat(self, key: CorrelationKey, request: bytes, now: float) -> None:
        """Called for every request without an id."""
        if self.first_ones and (first := self.first_ones.pop(key, None)) is not None:
            self.tell_replied(self.note(key, request), first, now)

    def note(self, key: CorrelationKey, data: bytes) -> int:
        """Several requests have these bytes; returns their checksum."""
        checksum = crc32(data)
        if checksum not in self._keys:
            self._keys[checksum] = key
            self.repeated.add(key)
            if len(self._keys) > MAX_REPEATED:
                self.repeated.discard(self._keys.popitem(last=False)[1])
        return checksum

    def learn(self, waiting: WaitingInbox, sequence: int) -> None:
        """A request with unique bytes was stored at this sequence. The shift changes when two such
        requests agree.
        """
        shift = sequence - waiting.number if waiting.number else self.shift
        if shift == self._learned or self.shift is None:
            self.shift = shift
        self._learned = shift

    def may_be_anothers(
        self, waiting: WaitingInbox, sequence: int, now: float, *, is_old: bool
    ) -> bool:
        """Whether the inbox belongs to another copy and this copy's is yet to come: by the shift,
        else by the inbox's age.
        """
        if self.shift is None or not waiting.number or not sequence or self.is_alone(now):
            return is_old
        return waiting.number < sequence - self.shift

    def can_choose(self, inboxes: list[WaitingInbox], sequence: int, now: float) -> bool:
        has_room = self._watched_bytes < MAX_WATCHED_BYTES and len(self._watched) < MAX_REPEATED
        return (
            self.shift is not None
            and sequence > 0
            and inboxes[0].number > 0
            and has_room
            and not self.is_alone(now)
        )

    def choose(self, inboxes: list[WaitingInbox], sequence: int) -> int | None:
        """The index of the inbox that this copy answers; None: it is not heard yet."""
        target = sequence - (self.shift or 0)
        at = bisect_left(inboxes, target, key=_number)
        if at == len(inboxes):
            return None
        return (
            at - 1 if at and target - inboxes[at - 1].number < inboxes[at].number - target else at
        )

    def tell_replied(self, checksum: int, waiting: WaitingInbox, now: float) -> None:
        """Tell the other instances with the next `announce`, if the bytes are repeated."""
        if (
            self.shift is None
            or not waiting.number
            or checksum not in self._keys
            or self.is_alone(now)
        ):
            return
        line = f"{checksum} {waiting.number + self.shift} {waiting.inbox}"
        self._lines.append(line)
        self._told += len(line)
        if self._told >= MAX_TOLD or len(self._lines) >= MAX_LINES:
            self._flush(now)

    def announce(self, now: float) -> None:
        """Called some fifty times a second: sends the answered inboxes, and now and then a sign of
        life.
        """
        if self._others_at is None:
            self._others_at = now - ALONE_AFTER_SILENCE_S + ALONE_AFTER_START_S
        if self._lines:
            self._flush(now)
        elif now - self._announced_at >= self._pause:
            self._announce(now)

    def _announce(self, now: float) -> None:
        """Of many idle instances two announce themselves: a sign of life of each would be heard by
        each other one.
        """
        is_needed = len(self._announcing) < MIN_ANNOUNCING or self._announced_at == -inf
        self._announcing.clear()
        self._announced_at, self._pause = now, spread(ANNOUNCE_EVERY_S)
        if is_needed:
            self._flush(now)

    def _flush(self, now: float) -> None:
        self._tell(self._lines)
        self._lines, self._told, self._announced_at = [], 0, now

    def read(self, line: str) -> tuple[CorrelationKey, int, str] | None:
        """Read another instance's line: the key of the bytes, the number of the request here, its
        inbox. None: it is unknown here.
        """
        checksum, _, rest = line.partition(" ")
        sequence, _, inbox = rest.partition(" ")
        if (
            self.shift is None
            or len(line) > MAX_LINE_LENGTH
            or not inbox
            or not (_is_number(checksum) and _is_number(sequence))
        ):
            return None
        key = self._keys.get(int(checksum))
        return None if key is None else (key, int(sequence) - self.shift, inbox)

    @staticmethod
    def find(inboxes: list[WaitingInbox], number: int, inbox: str) -> int | None:
        """The index of the inbox, near its number."""
        at = bisect_left(inboxes, number, key=_number)
        near = range(max(0, at - SEARCH_DISTANCE), min(len(inboxes), at + SEARCH_DISTANCE))
        return next((place for place in near if inboxes[place].inbox == inbox), None)

    def watch(self, key: CorrelationKey, checksum: int, answer: bytes, now: float) -> None:
        """Look again later for inboxes of these bytes that no instance answered."""
        if key not in self._watched:
            self._watched[key] = (checksum, answer, now + self._second_look_s)
            self._watched_bytes += len(answer)

    def take_due(self, now: float) -> list[tuple[CorrelationKey, int, bytes]]:
        """The answers for which it is time to look again: key, checksum, answer."""
        due = []
        while self._watched and next(iter(self._watched.values()))[2] <= now:
            key, (checksum, answer, _) = self._watched.popitem(last=False)
            self._watched_bytes -= len(answer)
            due.append((key, checksum, answer))
        return due


def _number(waiting: WaitingInbox) -> int:
    return waiting.number


def _is_number(text: str) -> bool:
    return len(text) <= 19 and text.isascii() and text.isdecimal()
