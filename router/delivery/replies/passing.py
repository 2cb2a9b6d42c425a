"""Answer requests from their passing copy while the stream's backlog is too deep to answer stored
copies in time.

A stream is one queue for all tenants: behind one tenant's flood every other request waits until its
requester has given up. So while the backlog is deep (`look`), one instance of a queue group takes
the passing copy of each request, and serves the tenants in turn:

    on_request ── its tenant's share of the queue has room ──> handled and answered; its stored copy then only gets an ack
        ├── another of its tenant gives way (`is_high`) ──> the same, and that one has no room
        ├── no room, and even stored copies come too late ──> answered `overloaded` with retry_after_ms
        ├── no room ──> left to its stored copy
        ├── no stream stores requests now (`UnstoredRequests`), and it needs its stored copy ──> answered `overloaded`
        └── its tenant or identity is not readable (`describe`: None) ──> left to its stored copy

No request is lost: the stored copy of each request that is not answered here is delivered and
answered as usual, and every instance is told its inbox. A request that is sent again under its id
gets the same answer. Effects are stored before the answer is sent, as in `settle`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, Protocol

from msgspec import Struct

from router.core.clock import Clock, steady, wall
from router.core.errors import BrokerUnavailable
from router.core.fair_queue import FairQueue
from router.core.fair_slots import FairSlots
from router.core.message import NO_HEADERS, Message, Reply, parse_ack_subject
from router.core.outcome import Dead, Done, Outcome
from router.delivery.consume.consumer import Consumer
from router.delivery.consume.stream_reader import RawMessage
from router.delivery.consume.subscription import Subscription
from router.delivery.publish.acked_publisher import NotPublished, PublishAcks
from router.delivery.replies.overload import Overload, Share
from router.delivery.replies.refusals import A, AskerReader, Refusals
from router.delivery.replies.replied_requests import RepliedRequests
from router.delivery.replies.reply_correlator import RequestIdentity
from router.delivery.replies.reply_sender import CLOCK_SLACK_S, MSG_ID, TENANT, ReplySender
from router.delivery.settings import AdmissionConfig, ConsumerConfig
from router.delivery.wire.frames import Headers, parse_head

BUDGET_S = 0.002  # for handlers in one turn of the event loop
SHORT_BUDGET_S = 0.0005  # while the socket is behind: reading requests comes before handling them
TENANT_BYTES = TENANT.encode()
# the last: to the stored copy
ANSWERED, OVERLOADED, LEFT = OUTCOMES = ("answered", "overloaded", "left")
# to a request that can only be answered from its stored copy, while none is stored
UNSTORED_RETRY_MS = 2_000
MAX_WAITING_WHILE_BEHIND = 16  # waiting handlers of one tenant, while the socket is behind


class PassingRequest(Struct, gc=False):
    """A passing copy in the queue; or a stored one that was read ahead (`stored`), without an inbox.
    `place`: of its tenant, in the turns. `heard_at`: seconds since the epoch.
    """

    subject: str
    data: bytes
    headers: Mapping[str, str]
    inbox: str
    place: str
    heard_at: float
    stored: Message | None = None


class PassingObserver(Protocol):
    """Counts passing copies. `on_passing_copy` is called once for each request that is not refused."""

    def on_passing_copy(self, outcome: str, seconds: float) -> None:
        """ANSWERED or LEFT, and the seconds since the passing copy was heard."""

    def on_refused(self, tenant: str, count: int) -> None:
        """`count` requests of a tenant were answered `overloaded` since the last call for it."""

    def on_overload(self, wait_s: float | None) -> None:
        """Passing copies are taken from now on, because the backlog is `wait_s` deep; None: no longer."""


class PassingRequests(Generic[A]):
    """For one subject. `consumer` returns the stream's consumer, whose handler and publisher it
    uses; None while that starts.
    """

    def __init__(
        self,
        replies: ReplySender,
        consumer: Callable[[], Consumer | None],
        marks: RepliedRequests,
        askers: AskerReader[A],
        *,
        requests: ConsumerConfig,
        admission: AdmissionConfig,
        observer: PassingObserver,
        clock: Clock = wall,
    ) -> None:
        """`requests`: their subject, and slots for handlers that wait. One tenant may have as many
        as are free.

        `clock` is of the server that stores the requests: their age, and which stored copy is
        whose, depend on it.
        """
        self._replies = replies
        self._consumer = consumer
        self._marks = marks
        self._subject = requests.subject
        self._describe = askers.describe
        self._find_place = askers.find_place
        self._is_high = askers.is_high
        self._observer = observer
        self._overload = Overload(replies, admission)
        self._queue: FairQueue[PassingRequest] = FairQueue(
            admission.queue, admission.queue_bytes, admission.weights
        )
        self._running: set[asyncio.Task[None]] = set()
        self._slots = FairSlots(requests.slots)
        self.refusals = Refusals(
            replies,
            marks,
            self._overload,
            askers,
            may_find_room=self._may_find_room,
            on_refused=observer.on_refused,
            clock=clock,
        )
        self._clock = clock
        self._newest_ns = 0
        self._handled = 0  # passing copies; their stored copies are pending, but need only an ack
        self._is_working = False
        self._is_closing = False
        self._now = steady
        self.is_on = False
        self.is_reading_ahead = False  # set by `ReadAhead`
        # set by `Listener`: no stream stores what is heard, so no stored copy comes
        self.is_unstored = False

    def look(self) -> bool:
        """Whether to take passing copies now. The listener calls it some fifty times a second."""
        self.refusals.report()
        self.refusals.forget_full()
        consumer = self._consumer()
        if consumer is None or consumer.processor is None:
            return self.is_on
        subscription = consumer.subscription
        self.refusals.is_allowed = subscription.is_allowed is None or subscription.is_allowed(
            subscription.subject or self._subject
        )
        is_on = (
            self._overload.look(
                consumer.processor, self._handled, is_open=consumer.pause_switch.is_open
            )
            or self.is_unstored
        )
        if self.is_unstored:
            self._overload.retry_after_ms = max(self._overload.retry_after_ms, UNSTORED_RETRY_MS)
        if is_on != self.is_on:
            self._switch(is_on)
        consumer.processor.most_held = self._overload.limit_in_flight(
            has_waiting=len(self._queue) > 0 or self.is_reading_ahead
        )
        return is_on

    def _switch(self, is_on: bool) -> None:
        self.is_on = is_on
        if not is_on:
            self._marks.clear()  # else a later request with the same bytes could count as answered
        self._replies.sent.switch(is_on)
        self._observer.on_overload(self._overload.wait_s if is_on else None)

    def end_switch(self) -> None:
        """No passing copy is heard any more, or all are: what the other subscription still brought
        has left marks.
        """
        if not self.is_on:
            self._marks.clear()

    # -- in ----------------------------------------------------------------------------------------

    def on_request(self, subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        """A passing copy that `refusals` did not take; called from the connection's reader."""
        inbox = self._replies.asker_of(reply, data, headers)
        if inbox is None:
            return
        heads = NO_HEADERS if headers is None else headers
        asker = self._describe(data, heads) if self.refusals.is_allowed else None
        if asker is None:
            self._leave(data, heads, inbox, self._clock())
        else:
            share = self._find_place(asker.tenant_id), self._is_high(asker)
            if not self._may_find_room(share, len(data)) or not self._enqueue(
                PassingRequest(subject, data, heads, inbox, share[0], self._clock()), share
            ):
                self._turn_away(asker, data, heads, inbox, self._clock())

    def _enqueue(self, request: PassingRequest, share: Share) -> bool:
        """Queue a request, or put it in the place of another of its tenant. False: there is no
        room.
        """
        queue, size, (place, goes_first) = self._queue, len(request.data), share
        if not queue.put(place, request, size, goes_first=goes_first):
            replaced = queue.put_instead(place, request, size, goes_first=goes_first)
            if replaced is None:
                return False
            if (
                replaced.stored is None
                and (asker := self._describe(replaced.data, replaced.headers)) is not None
            ):
                self._turn_away(
                    asker, replaced.data, replaced.headers, replaced.inbox, replaced.heard_at
                )
        self._work_soon()
        return True

    def _turn_away(
        self, asker: A, data: bytes, headers: Mapping[str, str], inbox: str, heard_at: float
    ) -> None:
        """There is no room for a passing copy."""
        if self._overload.refuses:
            self.refusals.add(asker, inbox.encode(), data, headers)
        else:
            self._leave(data, headers, inbox, heard_at)

    # -- in, from the stream (`ReadAhead`) --------------------------------------------------------

    @property
    def next_sequence(self) -> int:
        consumer = self._consumer()
        return (
            0
            if consumer is None or consumer.processor is None
            else consumer.processor.newest_sequence + 1
        )

    @property
    def has_waiting_inboxes(self) -> bool:
        return self._replies.has_waiting_inboxes

    def read_share(self, data: bytes, head: bytes | None) -> Share | None:
        headers = (
            NO_HEADERS
            if head is None or TENANT_BYTES not in head
            else parse_head(head) or NO_HEADERS
        )
        asker = self._describe(data, headers) if self.refusals.is_allowed else None
        return None if asker is None else (self._find_place(asker.tenant_id), self._is_high(asker))

    def take_stored(self, stored: RawMessage, share: Share) -> bool:
        """Queue the request as it will be delivered. Its inbox is known to `answers`, or named in
        it.
        """
        consumer, (subject, ack_subject, data, head) = self._consumer(), stored
        if consumer is None or not self._may_find_room(share, len(data)):
            return False
        place, names = parse_ack_subject(ack_subject.decode()), consumer.subscription
        headers = (parse_head(head) if head is not None else None) or NO_HEADERS
        if self._marks.has(data, headers, place.stored_ns / 1e9):
            return False  # its passing copy was answered, or refused
        name = names.subject or subject.decode("utf-8", "replace")
        message = Message(
            name, data, headers, names.stream, names.durable, place.sequence, place.stored_ns, 1, ""
        )
        return self._enqueue(
            PassingRequest(name, data, headers, "", share[0], message.stored_at, message), share
        )

    def _is_delivered(self, message: Message) -> bool:
        """Whether a message that was read ahead was delivered meanwhile, or answered by another
        instance.
        """
        return message.sequence < self.next_sequence or self._replies.sent.has_request(
            message.data, message.stored_at - CLOCK_SLACK_S
        )

    def _may_find_room(self, share: Share, size: int) -> bool:
        queue, (place, goes_first) = self._queue, share
        return (
            queue.has_room(place, size) or queue.gives_way(place, goes_first=goes_first)
        ) and not self._is_too_much(place)

    def _is_too_much(self, place: str) -> bool:
        """Whether another handler of this place would keep the router from reading requests: a
        waiting handler has no budget.
        """
        return self._replies.is_behind and self._slots.count(place) >= MAX_WAITING_WHILE_BEHIND

    # -- work --------------------------------------------------------------------------------------

    def _work_soon(self) -> None:
        if not self._is_working:
            self._is_working = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        self._is_working = False
        self.refusals.forget_full()
        began = self._now()
        until = began + (SHORT_BUDGET_S if self._replies.is_behind else BUDGET_S)
        while (request := self._queue.take()) is not None:
            self._handle(request)
            ended = self._now()
            self._queue.charge(ended - began)
            began = ended
            if ended >= until:
                self._work_soon()
                return

    def _handle(self, request: PassingRequest) -> None:
        consumer, stored = self._consumer(), request.stored
        if stored is not None and (self._is_delivered(stored) or self._is_too_much(request.place)):
            return
        if stored is None and self._replies.is_answered(
            request.headers.get(MSG_ID), request.inbox, request.data, request.heard_at
        ):
            return
        if consumer is None or not consumer.pause_switch.is_open:
            self._leave_request(request)
            return
        if (
            self._is_too_much(request.place)
            and (asker := self._describe(request.data, request.headers)) is not None
        ):
            self.refusals.add(asker, request.inbox.encode(), request.data, request.headers)
            return
        try:
            outcome = consumer.subscription.handle(
                stored or self._message(request, consumer.subscription)
            )
        except Exception:  # its stored copy fails the same way, and is counted and given up there
            self._leave_request(request)
            return
        self._handled += 1
        if not isinstance(outcome, Awaitable):
            self._conclude(request, outcome)
        elif not self._is_closing and self._slots.acquire(request.place):
            task = asyncio.get_running_loop().create_task(self._await(consumer, request, outcome))
            self._running.add(task)
            task.add_done_callback(lambda task: self._end(task, request.place))
        else:
            if asyncio.iscoroutine(outcome):
                outcome.close()
            self._leave_request(request)

    def _end(self, task: asyncio.Task[None], place: str) -> None:
        self._running.discard(task)
        self._slots.release(place)

    def _message(self, request: PassingRequest, subscription: Subscription) -> Message:
        """The message as its stored copy will be, without a sequence: its time is unique instead."""
        self._newest_ns = max(self._newest_ns + 1, int(self._clock() * 1e9))
        subject = subscription.subject or request.subject
        return Message(
            subject,
            request.data,
            request.headers,
            subscription.stream,
            subscription.durable,
            0,
            self._newest_ns,
            1,
            "",
        )

    async def _await(
        self, consumer: Consumer, request: PassingRequest, awaited: Awaitable[Outcome]
    ) -> None:
        try:
            async with asyncio.timeout(consumer.subscription.options.handler_timeout):
                outcome = await awaited
                if isinstance(outcome, Done) and not await self._store(consumer, outcome):
                    raise BrokerUnavailable("an effect is not stored")
        except asyncio.CancelledError:
            self._leave_request(request)
            raise
        except Exception:  # as above
            self._leave_request(request)
        else:
            # else its delivery answers
            if request.stored is None or not self._is_delivered(request.stored):
                self._conclude(request, outcome)

    async def _store(self, consumer: Consumer, done: Done) -> bool:
        """Publish the effects, then commit: before the answer, as in `settle`."""
        publish_acks: PublishAcks = ()
        if done.effects:
            if consumer.effect_publisher is None:
                return False
            stored = await consumer.effect_publisher.publish_and_wait(done.effects)
            if isinstance(stored, NotPublished):
                return False
            publish_acks = stored
        if done.commit is not None and (committing := done.commit(publish_acks)) is not None:
            await committing
        return True

    def _conclude(self, request: PassingRequest, outcome: Outcome) -> None:
        if isinstance(outcome, Done):
            if outcome.reply is not None:
                self._send(request, outcome.reply)
            self._mark(request)
            self._observer.on_passing_copy(ANSWERED, self._clock() - request.heard_at)
        elif isinstance(outcome, Dead) and outcome.reply is not None:
            # the stored copy makes the dead letter
            self._send(request, outcome.reply)
            self._observer.on_passing_copy(ANSWERED, self._clock() - request.heard_at)
        else:
            self._leave_request(request)

    def _mark(self, request: PassingRequest) -> None:
        if request.stored is None:
            self._marks.add(request.data, request.headers, request.heard_at)
        else:
            self._marks.add_stored(request.stored)

    def _send(self, request: PassingRequest, reply: Reply) -> None:
        if request.stored is None:
            self._replies.reply_to_passing_copy(request.inbox, request.data, reply.data)
        else:
            self._replies.send(request.stored, reply)

    def _leave_request(self, request: PassingRequest) -> None:
        if request.stored is None:
            self._leave(request.data, request.headers, request.inbox, request.heard_at)

    def _leave(self, data: bytes, headers: Mapping[str, str], inbox: str, heard_at: float) -> None:
        """Tell every instance the inbox: the one that decides the stored copy answers it. Where
        none is stored, refuse it.
        """
        if self.is_unstored and (asker := self._describe(data, headers)) is not None:
            self.refusals.add(asker, inbox.encode(), data, headers)
            return
        self._replies.expect(
            RequestIdentity(headers.get(MSG_ID) or None, headers.get(TENANT) or None, data),
            inbox,
            heard_at,
        )
        self._observer.on_passing_copy(LEFT, 0.0)

    # -- the end -----------------------------------------------------------------------------------

    async def close(self) -> None:
        """Handle what waits and needs no time; leave the rest to the stored copies."""
        self._is_closing = True
        self.refusals.report()
        while (request := self._queue.take()) is not None:
            self._handle(request)
        # a task that is cancelled before its first step would tell no instance its inbox
        await asyncio.sleep(0)
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._marks.clear()
        self._is_closing = False
