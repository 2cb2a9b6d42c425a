"""Who asked: joins the answers of requests decided from the stream with the inboxes heard on the subject.

A stream stores the payload, not the requester's inbox. So a listener hears every request as it passes (core NATS,
no queue group) and `ask`s here; the decision `answer`s here. Either half may come first. They are matched by a
64-bit hash of (Nats-Msg-Id, tenant header, payload): nothing is parsed (CONTRACTS §4).

    ask, then answer     the inbox is kept up to 10 s; most belong to other instances, so full is never a refusal
    answer, then ask     kept 250 ms, then it is nobody's: it goes to the reply subject
    ask again            with an id, within `span` of the answer: the stream has dropped it, so it is answered from here

With an id everything hangs on the id, because the stream dedupes by the id alone: the same id with other bytes
is dropped as well. It hears the same answer where it asks for the same (`is_same`), else that its id was taken.
Pure: time comes in as an argument, sending goes out through `send`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

Send = Callable[[str, bytes], None]  # inbox, data
Asked = tuple[str, int, float, bytes]  # inbox, hash of what was asked, when; what was asked, where its id came with other bytes before
NO_INBOX = ""  # of a request that nobody waits for
Spot = int  # where the halves meet: a hash of the Nats-Msg-Id, or of the whole when there is none

# Without an id nothing tells an inbox whose answer another instance gave from the one that this answer is for. Where all of
# them were heard longer ago than this, it may still be on its way: the answer goes to them, and waits for it too.
FRESH_S = 0.02
MOST_KEPT = 4 * 1024 * 1024  # bytes of requests under an id that others came with before, in each of two generations
LARGEST_KEPT = 16 * 1024  # bytes of an answered request
SILENCE_S = 2.0  # after an id-less key was answered, its further copies are nobody's for this long


class Question(Struct, frozen=True, gc=False):
    """What both halves know of a request."""

    msg_id: str | None
    tenant: str | None
    data: bytes


class Waiting(Struct):
    """An answer that nobody has asked for yet."""

    question: Question
    key: int
    data: bytes
    until: float
    unclaimed: Callable[[], None]


class Answered(Struct, gc=False):
    """What was answered to an id, for as long as the stream drops it."""

    question: Question
    key: int
    data: bytes
    at: float
    to: str | None = None  # the inbox that the request named itself, and that has its answer


class Rendezvous:
    """Inboxes and answers of one subject on one instance. All times are steady seconds."""

    def __init__(
        self,
        send: Send,
        conflict: Callable[[str, bytes], bytes],
        is_same: Callable[[bytes, bytes], bool] = lambda one, other: one == other,
        *,
        dedupe_window_s: float,
        inbox_wait_s: float = 0.25,
        keep_s: float = 10.0,
        capacity: int = 100_000,
    ) -> None:
        self._send = send
        self._conflict = conflict  # "this id came with other bytes": the id, and those bytes, empty where they are gone
        self._is_same = is_same  # whether other bytes ask for the same: a fresh trace id, another order of keys
        self._span = dedupe_window_s + 0.12
        self._wait_s = inbox_wait_s
        self._keep_s = keep_s
        self._capacity = capacity
        self._young: dict[Spot, list[Asked]] = {}
        self._old: dict[Spot, list[Asked]] = {}
        self._turned_at = 0.0
        self._waiting: dict[Spot, deque[Waiting]] = {}
        self._answered: OrderedDict[Spot, Answered] = OrderedDict()  # with an id, oldest first
        self._inboxes = 0  # in the young generation
        self._kept_bytes = 0  # since it began
        self._silent: OrderedDict[int, float] = OrderedDict()  # id-less keys -> when answered, oldest first

    @property
    def pending(self) -> int:
        """Inboxes that nobody has answered here: most of them other instances did."""
        return len(self._young) + len(self._old)

    # -- the two halves: once a message each ---------------------------------------------------------------

    def ask(self, question: Question, inbox: str, now: float) -> None:
        """An inbox was heard with these bytes."""
        msg_id, key = question.msg_id, _key_of(question)
        spot = key if msg_id is None else hash(msg_id)
        if self._waiting and spot in self._waiting:
            self._claim(question, key, inbox, now)
            return
        if msg_id is not None and (known := self._answered.get(spot)) is not None and now - known.at <= self._span:
            if inbox != known.to:
                self._send(inbox, known.data if known.key == key else self._answer_of_other(known.question, question, known.data))
            return
        if self._inboxes >= self._capacity:
            self._turn(now)
        self._inboxes += 1
        asked = self._young.get(spot)
        if asked is not None:
            asked.append((inbox, key, now, self._kept(question) if asked[0][1] != key else b""))
        else:
            self._young[spot] = [(inbox, key, now, b"")]

    def note(self, question: Question, now: float) -> None:
        """A request with an id and without an inbox was heard: who comes with its id and other bytes was dropped by the stream."""
        spot = hash(question.msg_id)
        if spot in self._waiting or self._inboxes >= self._capacity:
            return
        self._inboxes += 1
        self._young.setdefault(spot, []).append((NO_INBOX, _key_of(question), now, b""))

    def answer(self, question: Question, data: bytes, unclaimed: Callable[[], None], *, may_wait: bool, now: float) -> None:
        """Send an answer to the inboxes that asked for it; `unclaimed` is called when there is none.

        `may_wait` False: none can be expected (a redelivery, or stored before this listener was there).
        """
        msg_id, key = question.msg_id, _key_of(question)
        spot = key if msg_id is None else hash(msg_id)
        if msg_id is not None:
            self._answered.pop(spot, None)
            self._answered[spot] = Answered(_small(question), key, data, now)
        asked = self._heard_of(spot)
        if not asked:
            is_claimed = False
        elif msg_id is None:
            for inbox, _, _, _ in asked:
                self._send(inbox, data)
            self._hush(key, now)
            is_claimed = True
            if may_wait and now - asked[-1][2] > FRESH_S:
                self._spare(spot, Waiting(question, key, data, now + self._wait_s, _nothing))
        elif len(asked) == 1 and asked[0][1] == key:  # nearly always
            if is_claimed := asked[0][0] != NO_INBOX:
                self._send(asked[0][0], data)
        else:
            is_claimed = self._share(asked, key, question, data)
        if is_claimed:
            return
        if may_wait:
            self._spare(spot, Waiting(question, key, data, now + self._wait_s, unclaimed))
        elif key not in self._silent:
            unclaimed()

    def answer_named(self, question: Question, data: bytes, to: str, now: float) -> None:
        """The request named its inbox itself (`Reply-To`): it is served, and others of the same id with it."""
        self._send(to, data)
        msg_id, key = question.msg_id, _key_of(question)
        if msg_id is None:
            return
        spot = hash(msg_id)
        self._answered.pop(spot, None)
        self._answered[spot] = Answered(_small(question), key, data, now, to)
        others = [one for one in self._heard_of(spot) if one[0] != to]
        if others:
            self._share([*others, (to, key, now, b"")], key, question, data, served=to)

    # -- time ------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Called some twenty times a second: ends waits, forgets answers, turns the generations."""
        if self._waiting:
            self._end_waits(now)
        while self._answered and next(iter(self._answered.values())).at < now - self._span:
            self._answered.popitem(last=False)
        while self._silent and next(iter(self._silent.values())) < now - SILENCE_S:
            self._silent.popitem(last=False)
        if now - self._turned_at >= self._keep_s / 2:
            self._turn(now)

    # -- helpers ---------------------------------------------------------------------------------------------

    def _heard_of(self, spot: Spot) -> list[Asked]:
        asked = self._young.pop(spot, None)
        if asked is not None:
            self._inboxes -= len(asked)
        if self._old and (older := self._old.pop(spot, None)) is not None:
            asked = older + asked if asked is not None else older
        return asked or []

    def _answer_of_other(self, stored: Question, other: Question, answer: bytes) -> bytes:
        """What a requester hears whose bytes the stream dropped, for their id came with those of `stored`."""
        if stored.tenant == other.tenant and self._is_same(stored.data, other.data):
            return answer
        return self._conflict(stored.msg_id or "", other.data)

    def _kept(self, question: Question) -> bytes:
        """Bytes that are looked at once their id is answered; empty when too many are kept already."""
        if question.msg_id is None or self._kept_bytes + len(question.data) > MOST_KEPT:
            return b""
        self._kept_bytes += len(question.data)
        return question.data

    def _spare(self, spot: Spot, waiting: Waiting) -> None:
        self._waiting.setdefault(spot, deque()).append(waiting)

    def _share(self, asked: list[Asked], key: int, question: Question, data: bytes, served: str | None = None) -> bool:
        """One stored copy's answer among all inboxes of its id.

        Only those within `span` of its newest inbox asked for this copy: older ones had, and lost, another
        instance's; inboxes with other bytes were dropped by the stream if they are as near.
        """
        newest = max((at for _, hashed, at, _ in asked if hashed == key), default=None)
        if newest is None:
            self._keep(question.msg_id, asked)
            return False
        is_claimed = False
        for inbox, hashed, at, other in asked:
            is_claimed = is_claimed or (hashed == key and inbox != NO_INBOX)
            if abs(newest - at) <= self._span and inbox not in (served, NO_INBOX):
                self._send(inbox, data if hashed == key else self._answer_of_other(question, replace(question, data=other), data))
        self._keep(question.msg_id, (one for one in asked if one[2] - newest > self._span))
        return is_claimed

    def _keep(self, msg_id: str | None, asked: Iterable[Asked]) -> None:
        if msg_id is not None and (left := list(asked)):
            self._young[hash(msg_id)] = left
            self._inboxes += len(left)

    def _claim(self, question: Question, key: int, inbox: str, now: float) -> None:
        spot = key if question.msg_id is None else hash(question.msg_id)
        waiting = self._waiting[spot]
        if question.msg_id is not None and waiting[0].key != key:
            self._send(inbox, self._answer_of_other(waiting[0].question, question, waiting[0].data))
            return
        data = waiting.popleft().data
        self._send(inbox, data)
        if question.msg_id is None:
            self._hush(key, now)
        elif others := self._heard_of(spot):  # the same id with other bytes, heard before the first one's inbox
            self._share([*others, (inbox, key, now, b"")], key, question, data, served=inbox)
        if not waiting:
            del self._waiting[spot]

    def _end_waits(self, now: float) -> None:
        for spot in [spot for spot, waiting in self._waiting.items() if waiting[0].until <= now]:
            waiting = self._waiting[spot]
            while waiting and waiting[0].until <= now:
                ended = waiting.popleft()
                if spot not in self._silent:
                    ended.unclaimed()
            if not waiting:
                del self._waiting[spot]

    def _hush(self, key: int, now: float) -> None:
        self._silent.pop(key, None)
        self._silent[key] = now

    def _turn(self, now: float) -> None:
        self._old, self._young, self._turned_at, self._inboxes = self._young, {}, now, 0
        self._kept_bytes = 0


def _small(question: Question) -> Question:
    """Itself, or without its bytes where they are many: they are kept for as long as the stream's duplicate window."""
    return question if len(question.data) <= LARGEST_KEPT else replace(question, data=b"")


def _nothing() -> None:
    """Nobody need be told: it was answered."""


def _key_of(question: Question) -> int:
    """Both halves are computed in this process, so Python's own hash serves."""
    return hash((question.msg_id, question.tenant, question.data))
