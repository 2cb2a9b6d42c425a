"""Match answers of stored requests with the inboxes that the listener heard.

A stream stores the payload, not the requester's inbox. So a listener hears every request (core
NATS, no queue group) and calls `add_request`; the decision calls `answer`. Either call may come
first. They are matched by a 64-bit hash of (Nats-Msg-Id, tenant header, payload), without parsing
(docs/reference/contracts.md#matching).

    request, then answer    an inbox is kept for `keep` to twice that, and while this instance
                            handles its request (`WaitingInboxes`);
                            other instances answer most of them, so a full table refuses nothing
    answer, then request    the answer is kept for 250 ms, then it goes to the reply subject; while
                            passing copies are answered it is kept on for KEPT_S
    request again           with an id, within `span` of the answer: the stream drops it, so this
                            answers it

The stream deduplicates by id alone, so it also drops a request with the same id and other bytes.
Such a request gets the same answer if it asks for the same (`is_same`), else a conflict. Pure: the
time is an argument, and `send` sends.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from router.core.bounded_cache import BoundedCache
from router.delivery.replies.identical import CorrelationKey, IdenticalRequests, WaitingInbox
from router.delivery.replies.standstill import Standstill

Send = Callable[[str, bytes], None]  # inbox, data

# Without an id, an inbox that another instance has answered looks like the one that this answer is
# for. If all inboxes were heard longer ago than this, the right one may be yet to come: the answer
# goes to all of them, and waits for one more.
INBOX_FRESH_S = 0.02
MAX_KEPT_REQUEST_BYTES = 16 * 1024
NO_INBOX = ""  # of a request without an inbox
MAX_IN_FLIGHT_INBOXES = 1_000  # of one key: identical requests have one key
# of requests whose id came with other bytes before, in each of two generations
MAX_KEPT_BYTES = 4 * 1024 * 1024
# for so long after an answer, further copies of a request without an id get none
REPLIED_FOR_S = 2.0
# Answers that went to the reply subject while passing copies are answered. An instance reads these
# from a socket that may be seconds behind, and queues them. It reads ahead on another socket, and
# other instances take stored copies. So a request may be decided, and its answer given up, long
# before the instance that has its passing copy leaves that to the stored one.
KEPT_S = 10.0
KIB = 1024
MAX_KEPT_ANSWERS = 16_384  # KiB of them; one that is smaller counts as one
MOST_ALIKE = 16  # of requests without an id that have the same bytes


class RequestIdentity(Struct, frozen=True, gc=False):
    """What the listener and the decision know of a request."""

    msg_id: str | None
    tenant: str | None
    data: bytes


class UnclaimedAnswer(Struct):
    """An answer whose request was not heard yet."""

    request: RequestIdentity
    content_hash: int
    data: bytes
    until: float
    unclaimed: Callable[[], None]
    is_wanted: bool = True  # no passing copy without an inbox was heard


class Replied(Struct, gc=False):
    """The answer to an id, kept as long as the stream drops duplicates of it."""

    request: RequestIdentity
    content_hash: int
    data: bytes
    at: float
    to: str | None = None  # the inbox that the request named, which has its answer


class CorrelatorRules(Struct, frozen=True, kw_only=True):
    """How long, and how many, inboxes and answers wait for each other. Durations are seconds."""

    # The decide stream's.
    dedupe_window: float = 0.1
    inbox_wait: float = 0.25
    # An inbox waits at least so long for its answer; that of a message in flight waits as long as
    # that.
    keep: float = 35.0
    # Inboxes, of one generation.
    capacity: int = 100_000


class ReplyCorrelator:
    """Inboxes and answers of one subject on one instance. All times are steady seconds."""

    def __init__(
        self,
        send: Send,
        conflict: Callable[[str, bytes], bytes],
        is_same: Callable[[bytes, bytes], bool] = lambda one, other: one == other,
        *,
        rules: CorrelatorRules,
        identical: IdenticalRequests | None = None,
        read_copy_age: Callable[[], float] = lambda: inf,
        read_in_flight: Callable[[], Iterable[RequestIdentity]] = lambda: (),
    ) -> None:
        self._send = send
        self._read_in_flight = read_in_flight  # the requests that this instance is handling
        # seconds since the stream stored the copy that is answered
        self._read_copy_age = read_copy_age
        self.identical = identical if identical is not None else IdenticalRequests(lambda _: None)
        # builds the answer "this id came with other bytes" from the id and those bytes (empty: not
        # kept)
        self._conflict = conflict
        # whether other bytes ask for the same: a fresh trace id, another order of keys
        self._is_same = is_same
        # seconds for which the stream drops a repeated id, and a little more
        self.span = rules.dedupe_window + 0.12
        self._wait_s = rules.inbox_wait
        self._keep_s = rules.keep
        self._capacity = rules.capacity
        self._inboxes = WaitingInboxes()
        self._waiting: dict[CorrelationKey, deque[UnclaimedAnswer]] = {}
        # requests with an id, oldest first
        self._replied: OrderedDict[CorrelationKey, Replied] = OrderedDict()
        # when each was answered, oldest first
        self._replied_without_id: OrderedDict[CorrelationKey, float] = OrderedDict()
        # whether passing copies are answered, here or elsewhere: then an inbox may be heard late
        self.keeps_given_up: Callable[[], bool] = lambda: False
        # by the hash of content, shared by the tenants of the headers
        self._given_up: BoundedCache[int, tuple[bytes, ...]] = BoundedCache(MAX_KEPT_ANSWERS)
        self._given_up_until = -inf  # that of the newest one
        self._has_given_up = False  # a plain attribute, because each plain request reads it
        # a repeat that the stream dropped is not taken for one that it stores, however late it is
        # heard
        self._standstill = Standstill()

    @property
    def pending(self) -> int:
        """Inboxes that this instance has not answered. Other instances answered most of them."""
        return len(self._inboxes)

    def find_inbox(self, request: RequestIdentity) -> str | None:
        """An inbox that waits for the answer to this request; None: none was heard, or it has its
        answer.
        """
        key = _hash_content(request) if request.msg_id is None else hash(request.msg_id)
        waiting = self._inboxes.younger.get(key) or self._inboxes.older.get(key)
        return (waiting[0].inbox or None) if waiting else None

    def has_inbox(self, msg_id: str) -> bool:
        """Whether an inbox waits, or a request without one was heard, under this id."""
        key, table = hash(msg_id), self._inboxes
        return key in table.younger or key in table.older

    # -- once for each request, once for each answer -----------------------------------------------

    def add_request(
        self, request: RequestIdentity, inbox: str, now: float, number: int = 0
    ) -> None:
        """The listener heard this request, as number `number`."""
        msg_id, content_hash = request.msg_id, _hash_content(request)
        key = content_hash if msg_id is None else hash(msg_id)
        if msg_id is None:
            self.identical.on_repeat(key, request.data, now)
        if self._waiting and key in self._waiting:
            self._claim(request, content_hash, inbox, now, number)
            return
        if (
            msg_id is not None
            and (replied := self._replied.get(key)) is not None
            and now - replied.at <= self.span + self._standstill.measure(now)
        ):
            if inbox != replied.to:
                self._send(
                    inbox,
                    replied.data
                    if replied.content_hash == content_hash
                    else self._answer_of_other(replied.request, request, replied.data),
                )
            return
        if (
            self._has_given_up
            and (answer := self._take_given_up(request, content_hash, now)) is not None
        ):
            self._send(inbox, answer)
            return
        table = self._inboxes
        if table.count >= self._capacity:
            self._start_generation(now)
        table.count += 1
        inboxes = table.younger.get(key)
        if inboxes is not None:
            is_other = msg_id is not None and inboxes[0].content_hash != content_hash
            kept = table.keep_bytes(request) if is_other else b""
            inboxes.append(WaitingInbox(inbox, now, content_hash, number, kept))
            if msg_id is None:
                self.identical.note(key, request.data)
        else:
            table.younger[key] = [WaitingInbox(inbox, now, content_hash, number)]

    def add_plain_request(self, data: bytes, inbox: str, now: float, number: int) -> None:
        """`add_request` for a request without headers. If its bytes are unique, as most are, it
        costs one entry in a table.
        """
        key, table = hash(data), self._inboxes
        is_alone = (
            key not in table.younger
            and key not in self._waiting
            and key not in self.identical.first_ones
            and not self._has_given_up
        )
        if is_alone and table.count < self._capacity:
            table.count += 1
            table.younger[key] = [WaitingInbox(inbox, now, key, number)]
        else:
            self.add_request(RequestIdentity(None, None, data), inbox, now, number)

    def reply_plain(self, data: bytes, answer: bytes, now: float, sequence: int) -> bool:
        """`answer` for a request without headers, with unique bytes, that was heard here. False:
        nothing was done; call `answer`.
        """
        key, identical, table = hash(data), self.identical, self._inboxes
        inboxes = table.younger.get(key)
        if (
            inboxes is None
            or len(inboxes) > 1
            or key in self._replied_without_id
            or key in identical.repeated
            or key in table.older
        ):
            return False
        waiting = inboxes[0]
        if now - waiting.at > INBOX_FRESH_S or identical.may_be_anothers(
            waiting, sequence, now, is_old=False
        ):
            return False
        del table.younger[key]
        table.count -= 1
        if sequence:
            identical.learn(waiting, sequence)
        self._replied_without_id[key] = now
        self._send(waiting.inbox, answer)
        identical.keep_first(key, waiting, now)
        return True

    def note(self, request: RequestIdentity, now: float) -> None:
        """A request with an id, but without an inbox, was heard: the stream drops a later request
        with this id.
        """
        key, table = hash(request.msg_id), self._inboxes
        if key in self._waiting or table.count >= self._capacity:
            return
        table.count += 1
        table.younger.setdefault(key, []).append(
            WaitingInbox(NO_INBOX, now, _hash_content(request))
        )

    def reply(
        self,
        request: RequestIdentity,
        data: bytes,
        unclaimed: Callable[[], None],
        *,
        may_wait: bool,
        now: float,
        sequence: int = 0,
    ) -> None:
        """Send the answer of the copy at `sequence` to its inboxes; without one, call `unclaimed`.

        `may_wait` False: no inbox is to come (a redelivery, or stored before this listener
        subscribed).
        """
        msg_id, content_hash = request.msg_id, _hash_content(request)
        key = content_hash if msg_id is None else hash(msg_id)
        if msg_id is not None:  # `_note_replied` in place: this is once a message
            self._replied.pop(key, None)
            self._replied[key] = Replied(
                request if len(request.data) <= MAX_KEPT_REQUEST_BYTES else _drop_data(request),
                content_hash,
                data,
                now,
            )
        inboxes = self._inboxes.pop(key)
        if not inboxes:
            is_claimed = False
        elif msg_id is None:
            is_claimed = self._reply_without_id(
                request, inboxes, data, sequence, may_wait=may_wait, now=now
            )
        elif (
            may_wait
            and now - inboxes[-1].at > self.span
            and self._is_copy_younger(inboxes[-1], now)
        ):
            self._inboxes.put_back(key, inboxes)
            unclaimed = partial(self._reply_to_older, request, data, unclaimed)
            is_claimed = False
        elif len(inboxes) == 1 and inboxes[0].content_hash == content_hash:  # nearly always
            if is_claimed := inboxes[0].inbox != NO_INBOX:
                self._send(inboxes[0].inbox, data)
        else:
            is_claimed = self._share(inboxes, content_hash, request, data)
        if is_claimed:
            return
        is_wanted = not inboxes or inboxes[-1].inbox != NO_INBOX
        answer = UnclaimedAnswer(
            request, content_hash, data, now + self._wait_s, unclaimed, is_wanted
        )
        if may_wait:
            self._wait_for_request(key, answer)
        elif content_hash not in self._replied_without_id:
            self._give_up(answer, now)

    def reply_to_named_inbox(
        self, request: RequestIdentity, data: bytes, to: str, now: float
    ) -> None:
        """Send the answer to the inbox that the request named (`Reply-To`), and to others with the
        same id.
        """
        self._send(to, data)
        msg_id, content_hash = request.msg_id, _hash_content(request)
        if msg_id is None:
            return
        key = hash(msg_id)
        self._note_replied(key, request, content_hash, data, now=now, to=to)
        others = [waiting for waiting in self._inboxes.pop(key) if waiting.inbox != to]
        if others:
            self._share(
                [*others, WaitingInbox(to, now, content_hash)],
                content_hash,
                request,
                data,
                served=to,
            )

    # -- time --------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Called some fifty times a second: removes what has expired."""
        self._standstill.look(now)
        if self._waiting:
            self._end_waits(now)
        if self._has_given_up and now >= self._given_up_until:
            self._given_up, self._has_given_up = BoundedCache(MAX_KEPT_ANSWERS), False
        self._reply_to_left_over(now)
        self.identical.announce(now)
        while self._replied and next(
            iter(self._replied.values())
        ).at < now - self.span - self._standstill.measure(now):
            self._replied.popitem(last=False)
        while (
            self._replied_without_id
            and next(iter(self._replied_without_id.values())) < now - REPLIED_FOR_S
        ):
            self._replied_without_id.popitem(last=False)
        if now - self._inboxes.started_at >= self._keep_s:
            self._start_generation(now)

    # -- helpers -----------------------------------------------------------------------------------

    def _start_generation(self, now: float) -> None:
        in_flight = (
            _hash_content(request) if request.msg_id is None else hash(request.msg_id)
            for request in self._read_in_flight()
        )
        self._inboxes.start_generation(now, in_flight)

    def _is_copy_younger(self, newest: WaitingInbox, now: float) -> bool:
        """Whether the stream stored the copy after the time of this inbox: another instance
        answered the inbox, and the copy's own comes.

        The age of the copy is by the server's clock. Where the clocks differ, the answer is late by
        `inbox_wait`, and not lost.
        """
        return now - newest.at - self._read_copy_age() > self.span and not self.identical.is_alone(
            now
        )

    def _reply_to_older(
        self, request: RequestIdentity, data: bytes, unclaimed: Callable[[], None]
    ) -> None:
        """No younger inbox came."""
        inboxes = self._inboxes.pop(hash(request.msg_id))
        if not inboxes or not self._share(inboxes, _hash_content(request), request, data):
            unclaimed()

    def _answer_of_other(
        self, stored: RequestIdentity, other: RequestIdentity, answer: bytes
    ) -> bytes:
        """The answer to a request that the stream dropped because its id came with the bytes of
        `stored`.
        """
        if stored.tenant == other.tenant and self._is_same(stored.data, other.data):
            return answer
        return self._conflict(stored.msg_id or "", other.data)

    def _wait_for_request(self, key: CorrelationKey, waiting: UnclaimedAnswer) -> None:
        self._waiting.setdefault(key, deque()).append(waiting)

    def _share(
        self,
        inboxes: list[WaitingInbox],
        content_hash: int,
        request: RequestIdentity,
        data: bytes,
        served: str | None = None,
    ) -> bool:
        """Send one stored copy's answer to the inboxes of its id that belong to it.

        These are the ones within `span` of its newest inbox. Older ones belong to an earlier copy
        that another instance answered; the stream dropped requests with other bytes that came
        within `span`.
        """
        newest = max(
            (waiting.at for waiting in inboxes if waiting.content_hash == content_hash),
            default=None,
        )
        if newest is None:
            self._inboxes.put_back(hash(request.msg_id), inboxes)
            return False
        is_claimed = False
        for waiting in inboxes:
            is_same = waiting.content_hash == content_hash
            is_claimed = is_claimed or (is_same and waiting.inbox != NO_INBOX)
            if abs(newest - waiting.at) <= self.span and waiting.inbox not in (served, NO_INBOX):
                other = None if is_same else replace(request, data=waiting.kept)
                answer = data if other is None else self._answer_of_other(request, other, data)
                self._send(waiting.inbox, answer)
        self._inboxes.put_back(
            hash(request.msg_id),
            [waiting for waiting in inboxes if waiting.at - newest > self.span],
        )
        return is_claimed

    def _claim(
        self, request: RequestIdentity, content_hash: int, inbox: str, now: float, number: int
    ) -> None:
        key = content_hash if request.msg_id is None else hash(request.msg_id)
        waiting = self._waiting[key]
        if request.msg_id is not None and waiting[0].content_hash != content_hash:
            self._send(inbox, self._answer_of_other(waiting[0].request, request, waiting[0].data))
            return
        data = waiting.popleft().data
        self._send(inbox, data)
        if request.msg_id is None:
            self._mark_replied(content_hash, now)
            self.identical.keep_first(key, WaitingInbox(inbox, now, content_hash, number), now)
            if number and not self.identical.is_alone(now):  # the inbox may belong to another copy
                self.identical.watch(key, crc32(request.data), data, now)
        elif others := self._inboxes.pop(key):
            # the same id with other bytes, heard before the first one's inbox
            self._share(
                [*others, WaitingInbox(inbox, now, content_hash)],
                content_hash,
                request,
                data,
                served=inbox,
            )
        if not waiting:
            del self._waiting[key]

    # -- without an id -----------------------------------------------------------------------------

    def _reply_without_id(
        self,
        request: RequestIdentity,
        inboxes: list[WaitingInbox],
        data: bytes,
        sequence: int,
        *,
        may_wait: bool,
        now: float,
    ) -> bool:
        """Answer the inbox of this copy if it can be told from those of identical requests, else
        all of them.
        """
        identical, key = self.identical, _hash_content(request)
        is_like_no_other = (
            len(inboxes) == 1
            and key not in self._replied_without_id
            and key not in identical.repeated
        )
        if is_like_no_other and sequence and now - inboxes[0].at <= INBOX_FRESH_S:
            identical.learn(inboxes[0], sequence)
        self._mark_replied(key, now)
        if is_like_no_other or not identical.can_choose(inboxes, sequence, now):
            checksum = 0 if is_like_no_other else identical.note(key, request.data)
            for waiting in inboxes:
                self._reply_to_inbox(checksum, waiting, data, now)
            if is_like_no_other:
                identical.keep_first(key, inboxes[0], now)
            if may_wait and identical.may_be_anothers(
                inboxes[-1], sequence, now, is_old=now - inboxes[-1].at > INBOX_FRESH_S
            ):
                self._wait_for_request(
                    key, UnclaimedAnswer(request, key, data, now + self._wait_s, _ignore)
                )
            return True
        checksum = identical.note(key, request.data)
        identical.watch(key, checksum, data, now)
        at = identical.choose(inboxes, sequence)
        if at is not None:
            self._reply_to_inbox(checksum, inboxes.pop(at), data, now)
        self._inboxes.put_back(key, inboxes)
        return at is not None

    def _reply_to_inbox(
        self, checksum: int, waiting: WaitingInbox, data: bytes, now: float
    ) -> None:
        self._send(waiting.inbox, data)
        self.identical.tell_replied(checksum, waiting, now)

    def _reply_to_left_over(self, now: float) -> None:
        """Answer inboxes that no instance answered in time, although identical requests were
        answered.
        """
        for key, checksum, data in self.identical.take_due(now):
            inboxes = self._inboxes.pop(key)
            for waiting in inboxes:
                if now - waiting.at >= self._wait_s:
                    self._reply_to_inbox(checksum, waiting, data, now)
            left = [waiting for waiting in inboxes if now - waiting.at < self._wait_s]
            self._inboxes.put_back(key, left)
            if left:
                self.identical.watch(key, checksum, data, now)

    def forget(self, line: str) -> None:
        """Another instance answered this inbox."""
        if (answered := self.identical.read(line)) is None:
            return
        key, number, inbox = answered
        inboxes = self._inboxes.pop(key)
        at = self.identical.find(inboxes, number, inbox)
        if at is not None:
            del inboxes[at]
        self._inboxes.put_back(key, inboxes)

    def _end_waits(self, now: float) -> None:
        for key in [key for key, waiting in self._waiting.items() if waiting[0].until <= now]:
            waiting = self._waiting[key]
            while waiting and waiting[0].until <= now:
                ended = waiting.popleft()
                if key not in self._replied_without_id:
                    self._give_up(ended, now)
            if not waiting:
                del self._waiting[key]

    def _give_up(self, answer: UnclaimedAnswer, now: float) -> None:
        """No inbox was heard in time: the answer goes to the reply subject."""
        answer.unclaimed()
        if not (answer.is_wanted and self.keeps_given_up()):
            return
        request, content_hash = answer.request, answer.content_hash
        alike = self._given_up.get(content_hash, now) if request.msg_id is None else None
        self._keep(request, content_hash, (*(alike or ())[1 - MOST_ALIKE :], answer.data), now)

    def _keep(
        self, request: RequestIdentity, content_hash: int, answers: tuple[bytes, ...], now: float
    ) -> None:
        until, weight = now + KEPT_S, 1 + sum(map(len, answers)) // KIB
        self._given_up.put(content_hash, answers, until, now, request.tenant or "", weight)
        self._given_up_until, self._has_given_up = until, True

    def _take_given_up(
        self, request: RequestIdentity, content_hash: int, now: float
    ) -> bytes | None:
        """The answer to a request whose inbox is heard late. It is taken out: the next request with
        its id is another one, which has its own stored copy.
        """
        kept = self._given_up.get(content_hash, now)
        if kept is None:
            return None
        self._given_up.remove(content_hash)
        answer, *others = kept
        if others:
            self._keep(request, content_hash, tuple(others), now)
        if request.msg_id is not None:
            self._note_replied(hash(request.msg_id), request, content_hash, answer, now=now)
        return answer

    def _note_replied(
        self,
        key: CorrelationKey,
        request: RequestIdentity,
        content_hash: int,
        answer: bytes,
        *,
        now: float,
        to: str | None = None,
    ) -> None:
        if len(request.data) > MAX_KEPT_REQUEST_BYTES:
            request = _drop_data(request)
        self._replied.pop(key, None)
        self._replied[key] = Replied(request, content_hash, answer, now, to)

    def _mark_replied(self, content_hash: int, now: float) -> None:
        self._replied_without_id.pop(content_hash, None)
        self._replied_without_id[content_hash] = now


def _drop_data(request: RequestIdentity) -> RequestIdentity:
    """A large request without its bytes: it is kept as long as the stream's duplicate window."""
    return replace(request, data=b"")


def _ignore() -> None:
    """Do nothing: the request was answered."""


def _hash_content(request: RequestIdentity) -> int:
    """Python's own hash will do, because both sides compute it in this process."""
    if request.msg_id is None and request.tenant is None:
        return hash(request.data)
    return hash((request.msg_id, request.tenant, request.data))


# -- The inboxes of requests that the listener heard and this instance has not answered, by the key
# of their request.
#
# They are kept in two generations, so that a request costs one entry in a table and no timer:
# `start_generation` drops the older one. So an inbox is kept for one to two times the span between
# two generations, and a full table makes that span short. The inboxes of requests that this
# instance is handling are kept whatever the span is: these are few, and each tenant has its share.


class WaitingInboxes:
    """The two generations. `younger` and `count` are plain attributes: each request without headers
    reads and writes them itself.
    """

    def __init__(self) -> None:
        self.younger: dict[CorrelationKey, list[WaitingInbox]] = {}
        self.older: dict[CorrelationKey, list[WaitingInbox]] = {}
        self.count = 0  # inboxes in the younger generation
        self.started_at = 0.0  # the younger generation
        self._kept_bytes = 0  # in the younger generation

    def __len__(self) -> int:
        return len(self.younger) + len(self.older)

    def start_generation(self, now: float, in_flight: Iterable[CorrelationKey] = ()) -> None:
        """Drop the older generation, but for the inboxes of these keys."""
        dropped = self.older
        self.older, self.younger, self.started_at, self.count = self.younger, {}, now, 0
        self._kept_bytes = 0
        for key in in_flight:
            if (inboxes := dropped.pop(key, None)) is not None:
                self.older[key] = (inboxes + self.older.get(key, []))[-MAX_IN_FLIGHT_INBOXES:]

    def pop(self, key: CorrelationKey) -> list[WaitingInbox]:
        """Take all inboxes of a key out, oldest first."""
        inboxes = self.younger.pop(key, None)
        if inboxes is not None:
            self.count -= len(inboxes)
        if self.older and (older := self.older.pop(key, None)) is not None:
            inboxes = older + inboxes if inboxes is not None else older
        return inboxes or []

    def put_back(self, key: CorrelationKey, inboxes: list[WaitingInbox]) -> None:
        """Keep those that were popped and are not answered."""
        if inboxes:
            self.younger[key] = inboxes
            self.count += len(inboxes)

    def keep_bytes(self, request: RequestIdentity) -> bytes:
        """Return the bytes to keep until their id is answered; empty when too many are kept
        already.
        """
        if request.msg_id is None or self._kept_bytes + len(request.data) > MAX_KEPT_BYTES:
            return b""
        self._kept_bytes += len(request.data)
        return request.data
