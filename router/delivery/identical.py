"""Identical requests without ids, where several instances hear all of them and each decides some: who answers which inbox.

Nothing in a stored copy says whose it is. An instance that answered every inbox of the same bytes would answer those of the other
instances' copies too, so that N instances gave N answers. But all of them hear the requests nearly in the order of the stream:

    heard as number 7, `shift` 40   -> stored as sequence 47; so the copy of sequence 47 answers the inbox heard as number 7
    its inbox is answered           -> the other instances are told, and forget it
    an inbox that stays             -> is answered after all, by the instance whose turn to look comes first

The shift is learned when the listener begins and from each request that is like no other. Where it is wrong for a moment an inbox is
answered twice, or `SECOND_LOOK_S` late; none is left out. An instance that hears no other answers at once all that it heard.
What is told is believed, so only routers may publish on the subject.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from zlib import crc32

WaitingInbox = tuple[str, int, float, bytes]  # inbox, its number among all that was heard (0: it has none), when; nothing
Spot = int  # where requests with the same bytes meet

ANNOUNCE_EVERY_S = 5.0
ALONE_AFTER_START_S = 1.0  # after the start, until an instance that heard no other takes itself for the only one
ALONE_AFTER_SILENCE_S = 15.0  # an instance that says nothing for so long is gone
SECOND_LOOK_S = 0.25  # an inbox whose turn never came is answered after once to twice this
MAX_REPEATED = 10_000  # kinds of identical requests at once
MAX_WATCHED_BYTES = 8 * 1024 * 1024  # of the answers that wait for a second look; above it all inboxes are answered at once
SEARCH_DISTANCE = 16  # places to each side in which an inbox that another instance answered is looked for
MAX_LINES = 2_000  # of one message
MAX_LINE_LENGTH = 512  # characters of a line


class IdenticalRequests:
    """Of one subject on one instance. `tell` sends lines to the other instances."""

    def __init__(self, tell: Callable[[list[str]], None], net_s: float = SECOND_LOOK_S) -> None:
        self._tell = tell
        self._net_s = net_s * (1 + random.random())  # noqa: S311 - so that instances do not look all at once
        self._spots: OrderedDict[int, Spot] = OrderedDict()  # by checksum of the bytes: told of by other instances
        self.repeated: set[Spot] = set()
        self._nets: OrderedDict[Spot, tuple[int, bytes, float]] = OrderedDict()  # checksum, answer, when to look
        self._net_bytes = 0
        self._others_at: float | None = None  # None: there was no time yet to hear of one
        self.first_ones: OrderedDict[Spot, WaitingInbox] = OrderedDict()  # answered while it was like no other
        self._lines: list[str] = []
        self._spoke_at = -ANNOUNCE_EVERY_S
        self._learned: int | None = None
        self.shift: int | None = None  # a request's sequence in the stream, less its number among the heard

    def meet_other(self, now: float) -> None:
        """Another instance said something; the first to do so is answered at once."""
        if self.is_alone(now):
            self._spoke_at = -ANNOUNCE_EVERY_S
        self._others_at = now

    def is_alone(self, now: float) -> bool:
        return self._others_at is not None and now - self._others_at >= ALONE_AFTER_SILENCE_S

    def keep_first(self, key: Spot, one: WaitingInbox, now: float) -> None:
        """Its inbox is answered; the other instances need to know only if another one like it comes (`hear_again`)."""
        if not self.is_alone(now):
            self.first_ones.pop(key, None)
            self.first_ones[key] = one
            if len(self.first_ones) > MAX_REPEATED:
                self.first_ones.popitem(last=False)

    def hear_again(self, key: Spot, request: bytes, now: float) -> None:
        """Called for every request without an id."""
        if self.first_ones and (first := self.first_ones.pop(key, None)) is not None:
            self.tell_answered(self.note(key, request), first, now)

    def note(self, key: Spot, data: bytes) -> int:
        """There are several requests with these bytes; their checksum."""
        checksum = crc32(data)
        if checksum not in self._spots:
            self._spots[checksum] = key
            self.repeated.add(key)
            if len(self._spots) > MAX_REPEATED:
                self.repeated.discard(self._spots.popitem(last=False)[1])
        return checksum

    def learn(self, one: WaitingInbox, sequence: int) -> None:
        """A request that is like no other was stored at this sequence; two that agree are believed."""
        shift = sequence - one[1] if one[1] else self.shift
        if shift == self._learned or self.shift is None:
            self.shift = shift
        self._learned = shift

    def may_be_anothers(self, one: WaitingInbox, sequence: int, now: float, *, is_old: bool) -> bool:
        """Whether the inbox of this copy may still be on its way: by the shift, where it is known, else by the age of this one."""
        if self.shift is None or not one[1] or not sequence or self.is_alone(now):
            return is_old
        return one[1] < sequence - self.shift

    def can_choose(self, inboxes: list[WaitingInbox], sequence: int, now: float) -> bool:
        has_room = self._net_bytes < MAX_WATCHED_BYTES and len(self._nets) < MAX_REPEATED
        return self.shift is not None and sequence > 0 and inboxes[0][1] > 0 and has_room and not self.is_alone(now)

    def choose(self, inboxes: list[WaitingInbox], sequence: int) -> int | None:
        """The place in `asked` of the inbox that this copy answers; None: it is not heard yet."""
        target = sequence - (self.shift or 0)
        at = bisect_left(inboxes, target, key=_number)
        if at == len(inboxes):
            return None
        return at - 1 if at and target - inboxes[at - 1][1] < inboxes[at][1] - target else at

    def tell_answered(self, checksum: int, one: WaitingInbox, now: float) -> None:
        """The other instances are told with the next `speak`, where they have heard several of these."""
        if self.shift is None or not one[1] or checksum not in self._spots or self.is_alone(now):
            return
        self._lines.append(f"{checksum} {one[1] + self.shift} {one[0]}")
        if len(self._lines) >= MAX_LINES:
            self._flush(now)

    def speak(self, now: float) -> None:
        """Called some twenty times a second: what was answered, and now and then that this instance is there."""
        if self._others_at is None:
            self._others_at = now - ALONE_AFTER_SILENCE_S + ALONE_AFTER_START_S
        if self._lines or now - self._spoke_at >= ANNOUNCE_EVERY_S:
            self._flush(now)

    def _flush(self, now: float) -> None:
        self._tell(self._lines)
        self._lines, self._spoke_at = [], now

    def read(self, line: str) -> tuple[Spot, int, str] | None:
        """What another instance told: where the bytes meet, the number that it has here, the inbox. None: nothing to forget."""
        checksum, _, rest = line.partition(" ")
        sequence, _, inbox = rest.partition(" ")
        if self.shift is None or len(line) > MAX_LINE_LENGTH or not inbox or not (_is_number(checksum) and _is_number(sequence)):
            return None
        key = self._spots.get(int(checksum))
        return None if key is None else (key, int(sequence) - self.shift, inbox)

    @staticmethod
    def find(inboxes: list[WaitingInbox], number: int, inbox: str) -> int | None:
        """Where it stands, near its number."""
        at = bisect_left(inboxes, number, key=_number)
        near = range(max(0, at - SEARCH_DISTANCE), min(len(inboxes), at + SEARCH_DISTANCE))
        return next((place for place in near if inboxes[place][0] == inbox), None)

    def watch(self, key: Spot, checksum: int, answer: bytes, now: float) -> None:
        """Look again later for inboxes of these bytes that no instance answered."""
        if key not in self._nets:
            self._nets[key] = (checksum, answer, now + self._net_s)
            self._net_bytes += len(answer)

    def take_due(self, now: float) -> list[tuple[Spot, int, bytes]]:
        """Where it is time to look again: the place, the checksum, the answer."""
        due = []
        while self._nets and next(iter(self._nets.values()))[2] <= now:
            key, (checksum, answer, _) = self._nets.popitem(last=False)
            self._net_bytes -= len(answer)
            due.append((key, checksum, answer))
        return due


def _number(one: WaitingInbox) -> int:
    return one[1]


def _is_number(text: str) -> bool:
    return len(text) <= 19 and text.isascii() and text.isdecimal()
