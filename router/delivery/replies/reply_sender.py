"""Send an answer to the inbox that the request names, to the inboxes that the listener heard, or
else to the reply subject.

Rule: docs/reference/contracts.md#reply-addresses.

Reply addresses are input: an answer to `$JS.API.STREAM.PURGE.…` would empty a stream. So answers go
only to literal subjects under `prefixes`, and never under `own`, where the router receives answers
to its own requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf

from msgspec import Struct

from router.contracts.headers import (
    CONTROL_HEADERS,
    MAX_HEADER_BYTES,
    SILENCING_HEADERS,
    find_silencing_header,
)
from router.core.clock import Clock, steady, wall
from router.core.ids import is_literal_subject
from router.core.message import Message, Reply
from router.delivery.publish.publish_acks import (
    CONFIRM,
    EXPECTED_STREAM,
    is_for_another_stream,
    is_pub_ack_wanted,
    pub_ack,
    tenant_of_publisher,
    wrong_stream,
)
from router.delivery.replies.identical import MAX_LINES, IdenticalRequests
from router.delivery.replies.reply_correlator import (
    CorrelatorRules,
    ReplyCorrelator,
    RequestIdentity,
)
from router.delivery.replies.sent_replies import SentReplies
from router.delivery.settings import ReplyConfig, StreamConfig
from router.delivery.wire.connection import Connection, head_of
from router.delivery.wire.frames import Headers

MSG_ID = "Nats-Msg-Id"
TENANT = "tenant_id"
TRACE = "trace_id"
REPLY_TO = "Reply-To"
# Subjects between instances: which passing copies were answered; inboxes of passing copies that were not;
# answered inboxes of identical requests.
PASSING_REPLIES = "beamline.router.v1.internal.answered"
PASSING_ASKERS = "beamline.router.v1.internal.asked"
IDENTICAL = "beamline.router.v1.internal.identical"
INSTANCE = "Router-Instance"
# when a passing copy was heard that its instance leaves to the stored one, seconds since the epoch
HEARD_AT = "Router-Heard-At"
# they say where an answer, or a publish ack, is to go
ASKING_HEADERS = frozenset({REPLY_TO, EXPECTED_STREAM, CONFIRM})
MAX_SHARED_REQUEST_BYTES = 128 * 1024  # a larger request is not published to the other instances
NO_SEQUENCE = 2**62  # no sequence is above it
# stored time, ns, of a passing copy, or of one that comes again: no answer is later
NOT_STORED = 2**63
# a stored copy has the server's time, an answer the server's as this process reads it
CLOCK_SLACK_S = 1.0
MAX_ADDRESS_BYTES = 500  # of an inbox, which a client chooses; 200 000 of them are kept
MAX_STEMS, MAX_STEM_LENGTH = 1024, 256  # of clients whose requests are refused; an inbox is shorter
# with fewer letters in its values a header block is not too large, so it is not measured
MANY_HEADER_LETTERS = MAX_HEADER_BYTES // 8


class ReplyRules(Struct, frozen=True, kw_only=True):
    """The settings that answers need. `requests`: the stream that stores them."""

    reply: ReplyConfig
    requests: StreamConfig
    # Our own inboxes, which are never answered.
    own: tuple[str, ...] = ()
    # An inbox waits at least so many seconds for its answer; that of a message in flight waits as
    # long as that.
    keep_s: float = 35.0

    @property
    def of_correlator(self) -> CorrelatorRules:
        return CorrelatorRules(
            dedupe_window=self.requests.duplicate_window_ms / 1000,
            inbox_wait=self.reply.inbox_wait_ms / 1000,
            keep=self.keep_s,
        )


class ReplySender:
    """Sends answers. With a listener it also learns the inboxes of the requesters."""

    def __init__(
        self,
        connection: Connection,
        rules: ReplyRules,
        *,
        conflict: Callable[[str, bytes], bytes],
        refusal: Callable[[str, str, bytes, Headers], bytes],
        is_same: Callable[[bytes, bytes], bool] = lambda one, other: one == other,
        on_refused: Callable[[str], None] = lambda _: None,
        read_in_flight: Callable[[], Iterable[Message]] = lambda: (),
        clock: Clock = wall,
    ) -> None:
        """`clock` is of the server that stores the requests: an answer is compared with the time of
        their stored copies.
        """
        self._connection = connection
        self._prefixes, self._own = rules.reply.prefixes, rules.own
        # `{subject}` stands for the request's own.
        self._subject_pattern = rules.reply.subject or "{subject}.reply"
        self._stream = rules.requests.name
        self._on_refused = on_refused
        # the answer to a request that the stream refuses: header's name, inbox, request, its
        # headers
        self._refusal = refusal
        self.sent = SentReplies(
            lambda data: connection.publish_nowait(PASSING_REPLIES, data), clock
        )
        identical = IdenticalRequests(
            lambda lines: connection.publish_nowait(
                IDENTICAL, "\n".join((self.sent.instance, *lines)).encode()
            )
        )
        self._request = b""  # whose answer is being sent
        self._stored_ns = NOT_STORED
        self._correlator = ReplyCorrelator(
            self._send,
            conflict,
            is_same=is_same,
            rules=rules.of_correlator,
            identical=identical,
            read_copy_age=lambda: clock() - self._stored_ns / 1e9,
            read_in_flight=lambda: map(_build_identity, read_in_flight()),
        )
        self._correlator.keeps_given_up = lambda: self.sent.is_used
        # sequences above this one were stored while the listener was subscribed
        self._listens_from: int | None = None
        # steady seconds from which on the stream takes the ids of all earlier ones again
        self._old_from = inf
        self._now = steady
        self._stems: set[bytes] = set()  # inboxes without their last token, from `may_answer`
        # of the answer that was sent there last: nearly always the same
        self._replied_subject = self._reply_subject = ""
        self.refused = 0  # reply addresses outside the prefixes
        self.heard = 0
        # of them, those that a stream which has room stores, unless they are copies
        self.storable = 0

    # -- answers -----------------------------------------------------------------------------------

    def send(self, message: Message, reply: Reply) -> None:
        """Send an answer to the requesters of this message."""
        headers = message.headers
        is_plain = not headers and self._listens_from is not None and not self.sent.is_used
        if is_plain and self._correlator.reply_plain(
            message.data, reply.data, self._now(), message.sequence
        ):
            return
        # while passing copies are answered, another instance may hear its inbox late
        if headers and not self.sent.is_used and self._is_unheard(message):
            self._to_reply_subject(message, reply)
            return
        # What comes again is answered again: its ack was lost, and its answer perhaps with it.
        self._request, self._stored_ns = (
            message.data,
            message.stored_ns if message.deliveries == 1 else NOT_STORED,
        )
        if (
            headers
            and (EXPECTED_STREAM in headers or CONFIRM in headers)
            and is_pub_ack_wanted(headers)
        ):
            self._reply_to_publisher(message, reply)
            return
        request = RequestIdentity(
            headers.get(MSG_ID) or None, headers.get(TENANT) or None, message.data
        )
        if named := headers.get(REPLY_TO):
            if self._may_reach(named):
                self._correlator.reply_to_named_inbox(request, reply.data, named, self._now())
                return
            self._refuse(named)
        if self._listens_from is None:
            self._to_reply_subject(message, reply)
            return
        may_wait = message.deliveries == 1 and message.sequence > self._listens_from
        unclaimed = lambda: self._to_reply_subject(message, reply)  # noqa: E731
        # this instance does not hear all passing copies, so it cannot number them
        sequence = 0 if self.sent.is_used else message.sequence
        self._correlator.reply(
            request, reply.data, unclaimed, may_wait=may_wait, now=self._now(), sequence=sequence
        )

    def _is_unheard(self, message: Message) -> bool:
        """Whether no inbox waits for this request, and none will: it was stored before the listener
        subscribed, its id may be stored again since, it names no inbox and wants no publish ack.
        """
        if (
            self._listens_from is None
            or message.sequence > self._listens_from
            or not ASKING_HEADERS.isdisjoint(message.headers)
        ):
            return False
        msg_id = message.headers.get(MSG_ID)
        return (
            msg_id is not None
            and self._now() >= self._old_from
            and not self._correlator.has_inbox(msg_id)
        )

    def _reply_to_publisher(self, message: Message, reply: Reply) -> None:
        """Send the decision to `Reply-To` or the reply subject, and a publish ack to the publisher."""
        named = message.headers.get(REPLY_TO)
        if named and self._may_reach(named):
            self._connection.publish_nowait(named, reply.data)
        else:
            if named:
                self._refuse(named)
            self._to_reply_subject(message, reply)
        if self._listens_from is None:
            return
        may_wait = message.deliveries == 1 and message.sequence > self._listens_from
        stored = pub_ack(message.stream, message.sequence)
        self._correlator.reply(
            _build_publisher_identity(message.data, message.headers),
            stored,
            _ignore,
            may_wait=may_wait,
            now=self._now(),
        )

    def _send(self, inbox: str, data: bytes) -> None:
        """Send a stored copy's answer, unless its passing copy was answered, and note it for other
        passing copies.
        """
        if self.sent.is_used:
            if self.sent.has(inbox, self._request, self._stored_ns / 1e9 - CLOCK_SLACK_S):
                return
            self.sent.note(inbox, self._request)
        self._connection.publish_nowait(inbox, data)

    def _to_reply_subject(self, message: Message, reply: Reply) -> None:
        sent = self.sent
        if (
            sent.is_used
            and not sent.is_empty
            and sent.has_request(message.data, message.stored_at - CLOCK_SLACK_S)
        ):
            return
        if message.subject != self._replied_subject:
            self._replied_subject, self._reply_subject = (
                message.subject,
                self._subject_pattern.replace("{subject}", message.subject),
            )
        data = reply.data if reply.public is None else reply.public
        self._connection.publish_nowait(self._reply_subject, data, "", _build_head(reply))

    def _may_reach(self, address: str) -> bool:
        if len(address) > MAX_ADDRESS_BYTES or (
            not address.isascii() and len(address.encode("utf-8", "replace")) > MAX_ADDRESS_BYTES
        ):
            return False
        return (
            address.startswith(self._prefixes)
            and not address.startswith(self._own)
            and is_literal_subject(address)
        )

    def _refuse(self, address: str) -> None:
        self.refused += 1
        self._on_refused(address)

    # -- the listener ------------------------------------------------------------------------------

    @property
    def is_listening(self) -> bool:
        """Whether the listener hears the inbox of every request that is stored from now on."""
        return self._listens_from is not None and self._listens_from < NO_SEQUENCE

    def find_requester(self, message: Message) -> str | None:
        """The inbox that waits for this message's answer: the one that it names, else one that the
        listener heard.
        """
        named = message.headers.get(REPLY_TO)
        if named:
            return named if self._may_reach(named) else None
        return self._correlator.find_inbox(_build_identity(message))

    def start_listening_from(self, sequence: int) -> None:
        """The listener is subscribed and hears every request that is stored after `sequence`."""
        self._listens_from = sequence
        self._old_from = self._now() + self._correlator.span if sequence < NO_SEQUENCE else inf
        self._correlator.identical.shift = sequence - self.heard if sequence < NO_SEQUENCE else None

    def on_identical(self, data: bytes) -> None:
        """Another instance answered identical requests, or announced itself."""
        instance, *lines = data.decode("utf-8", "replace").split("\n")[: MAX_LINES + 1]
        if instance != self.sent.instance:
            self._correlator.identical.meet_other(instance, self._now())
            for line in lines:
                self._correlator.forget(line)

    def on_request(self, _subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        """A passing copy; called from the connection's reader for every request."""
        inbox = self.asker_of(reply, data, headers)
        if inbox is None:
            return
        self._request, self._stored_ns = data, NOT_STORED
        if headers is None:
            self._correlator.add_plain_request(data, inbox, self._now(), self.heard)
            return
        msg_id = headers.get(MSG_ID) or None
        if msg_id is None and REPLY_TO in headers:
            return  # the stream stores each copy, which is answered by its `Reply-To`
        self._correlator.add_request(
            RequestIdentity(msg_id, headers.get(TENANT) or None, data),
            inbox,
            self._now(),
            self.heard,
        )

    def asker_of(self, reply: str, data: bytes, headers: Headers | None) -> str | None:
        """The inbox of a passing copy whose request will be stored; None: it has none, or this refused
        it.
        """
        self.heard += 1
        if headers is None:
            if self._may_reach(reply):
                self.storable += 1
                return reply
            if reply:
                self._refuse(reply)
            return None
        if (
            (EXPECTED_STREAM in headers or CONFIRM in headers)
            and is_pub_ack_wanted(headers)
            and _find_silencing_header(headers) is None
        ):
            self._on_publisher_request(reply, data, headers)
            return None
        inbox = headers.get(REPLY_TO) or reply
        if not inbox:
            if msg_id := headers.get(MSG_ID):
                self._correlator.note(
                    RequestIdentity(msg_id, headers.get(TENANT) or None, data), self._now()
                )
            return None
        if not self._may_reach(inbox):
            # else its stored copy is refused, and counted
            if REPLY_TO not in headers or _find_silencing_header(headers) is not None:
                self._refuse(inbox)
            return None
        # the stream drops it without an answer, so this answers
        if (silenced := _find_silencing_header(headers)) is not None:
            self._connection.publish_nowait(inbox, self._refusal(silenced, inbox, data, headers))
            return None
        self.storable += CONTROL_HEADERS.isdisjoint(headers)
        return inbox

    def _on_publisher_request(self, reply: str, data: bytes, headers: Headers) -> None:
        """The stored copy is answered, also while passing copies are: the publish ack names its
        sequence.
        """
        if not reply:
            return
        if not self._may_reach(reply):
            self._refuse(reply)
        elif is_for_another_stream(headers, self._stream):
            self._connection.publish_nowait(reply, wrong_stream(self._stream))
        elif self.sent.is_on:
            self.expect(_build_publisher_identity(data, headers), reply, inf)
        else:
            self._request, self._stored_ns = data, NOT_STORED
            self._correlator.add_request(
                _build_publisher_identity(data, headers), reply, self._now()
            )

    def expect(self, request: RequestIdentity, inbox: str, heard_at: float) -> None:
        """A passing copy is not answered here: tell every instance its inbox, because any of them may
        decide the stored copy, or has done so since the copy was heard. `heard_at`: seconds since
        the epoch; infinite: no instance has.
        """
        if self.is_answered(request.msg_id, inbox, request.data, heard_at):
            return
        self._request, self._stored_ns = request.data, NOT_STORED
        self._correlator.add_request(request, inbox, self._now())
        if len(request.data) <= MAX_SHARED_REQUEST_BYTES:
            headers = {
                INSTANCE: self.sent.instance,
                MSG_ID: request.msg_id or "",
                TENANT: request.tenant or "",
                HEARD_AT: str(heard_at),
            }
            self._connection.publish_nowait(PASSING_ASKERS, request.data, inbox, head_of(headers))

    def on_asker(self, _subject: str, inbox: str, data: bytes, headers: Headers | None) -> None:
        """Another instance's `expect`."""
        if (
            headers is None
            or headers.get(INSTANCE) == self.sent.instance
            or not self._may_reach(inbox)
        ):
            return
        request = RequestIdentity(headers.get(MSG_ID) or None, headers.get(TENANT) or None, data)
        # this instance may have heard, and answered, it sooner than the other one
        heard_at = _read_time(headers.get(HEARD_AT, "")) - CLOCK_SLACK_S
        if not self.is_answered(request.msg_id, inbox, data, heard_at):
            self._request, self._stored_ns = data, NOT_STORED
            self._correlator.add_request(request, inbox, self._now())

    def is_answered(self, msg_id: str | None, inbox: str, data: bytes, heard_at: float) -> bool:
        """Whether a request's stored copy was answered there, by any instance, before its passing
        copy is. Without an id that may be another request's answer, so it is answered again.

        `heard_at`: seconds since the epoch.
        """
        return bool(msg_id) and self.sent.has(inbox, data, heard_at)

    @property
    def has_waiting_inboxes(self) -> bool:
        """Whether an inbox that was heard has no answer from this instance. Other instances may
        have answered it.
        """
        return self._correlator.pending > 0

    @property
    def is_behind(self) -> bool:
        """Whether more requests wait in the socket than a read takes."""
        return self._connection.is_behind

    def may_reply(self, reply: bytes) -> bool:
        """`asker_of` for a request with no header but an id, undecoded. False: call `asker_of`."""
        stem, _, token = reply.rpartition(b".")
        if not (stem in self._stems and token.isalnum() and len(reply) <= MAX_STEM_LENGTH):
            if not (reply.isascii() and self._may_reach(reply.decode("ascii"))):
                return False
            self._keep_stem(stem)
        self.heard += 1
        return True

    def _keep_stem(self, stem: bytes) -> None:
        """Inboxes of one client differ in their last token alone: it need not be checked each time,
        where no rule reaches into it.
        """
        start = stem.decode("ascii") + "."
        if start.startswith(self._prefixes) and not any(own.startswith(start) for own in self._own):
            if len(self._stems) >= MAX_STEMS:
                self._stems.clear()
            self._stems.add(stem)

    def pass_over(self, msg_id: str | None, data: bytes) -> None:
        """`asker_of` for a request without an inbox, with no header but an id."""
        self.heard += 1
        if msg_id is not None:
            self._correlator.note(RequestIdentity(msg_id, None, data), self._now())

    def send_many(self, answers: Iterable[tuple[bytes, bytes]]) -> None:
        """Send to inboxes from `asker_of` or `may_answer`, where the caller prevents a second
        answer.
        """
        self._connection.publish_many(answers)

    def on_fault(self, exc: BaseException) -> None:
        """A request that was heard made its reader fail."""
        self._connection.on_fault(exc)

    def reply_to_passing_copy(self, inbox: str, request: bytes, data: bytes) -> None:
        """Send to an inbox from `asker_of`; the stored copy then sends no second answer."""
        self._connection.publish_nowait(inbox, data)
        self.sent.note(inbox, request)

    def tick(self) -> None:
        """Called some fifty times a second."""
        now = self._now()
        self._correlator.tick(now)
        self.sent.tick(now)


def _build_head(reply: Reply) -> bytes:
    """The headers of an answer on the reply subject."""
    trace_id, tenant_id = reply.trace_id, reply.tenant_id
    if trace_id is None or tenant_id is None or not f"{trace_id}{tenant_id}".isprintable():
        headers = {TRACE: trace_id, TENANT: tenant_id, "version": "1"}
        return head_of({name: value for name, value in headers.items() if value is not None})
    return f"NATS/1.0\r\n{TRACE}: {trace_id}\r\n{TENANT}: {tenant_id}\r\nversion: 1\r\n\r\n".encode(
        "utf-8", "replace"
    )


def _build_identity(message: Message) -> RequestIdentity:
    """What the listener noted of this request."""
    headers = message.headers
    if (EXPECTED_STREAM in headers or CONFIRM in headers) and is_pub_ack_wanted(headers):
        return _build_publisher_identity(message.data, headers)
    return RequestIdentity(headers.get(MSG_ID) or None, headers.get(TENANT) or None, message.data)


def _build_publisher_identity(data: bytes, headers: Mapping[str, str]) -> RequestIdentity:
    return RequestIdentity(
        headers.get(MSG_ID) or None, tenant_of_publisher(headers.get(TENANT)), data
    )


def _read_time(text: str) -> float:
    """Seconds since the epoch; infinite where it is none."""
    try:
        return float(text)
    except ValueError:
        return inf


def _ignore() -> None:
    """The publisher is gone, or another instance heard it: its request is stored and decided all
    the same.
    """


def _find_silencing_header(headers: Headers) -> str | None:
    """The control header for which the stream drops a request without an answer, or `headers` for a
    block that is too large.
    """
    if (
        sum(map(len, headers.values())) > MANY_HEADER_LETTERS
        and len(head_of(headers)) > MAX_HEADER_BYTES
    ):
        return "headers"
    return None if SILENCING_HEADERS.isdisjoint(headers) else find_silencing_header(headers)
