"""Publish effects of many messages at once; a callback gets the publish acks of each group.

    publish(effects, callback)  ->  HPUB with our inbox as reply  ->  publish ack  ->  callback(publish acks | NotPublished)

The callback of a group is called once: with its publish acks when the last one is here, or at the
first refusal. Publishing a group again is harmless, because ids are deterministic. Waiting for
publish acks one by one gives 5 k/s, with a future for each 23 k/s, by callback 39 k/s
(docs/explanation/durability.md#publish-window).

An effect that is known to be stored, or on its way, is not published again (`known_effects`). A
publish ack marked duplicate does not prove that a dead letter is stored: a replay deletes dead
letters, but the server still remembers their ids. So this looks for the first copy, and publishes
the dead letter under another id if it is gone.

No stream may take the effect's subject: then the server is asked whether one is bound to it. If
none is, the stream is missing; else it has no leader now, which says as little as silence.

An effect is sent again before its time is over if the connection was lost meanwhile, or a probe
shows that its leader was (`PublishProbes`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import takewhile
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from router.core.clock import steady
from router.core.errors import RouterError
from router.core.message import Effect
from router.core.outcome import PublishAck
from router.delivery.publish.encoded_headers import head_with_id
from router.delivery.publish.known_effects import KnownEffects, Probe, PublishProbes, group_of
from router.delivery.publish.publish_acks import read_publish_ack
from router.delivery.wire.api import IN_PROCESS, WRONG_LAST_SEQUENCE, JetStream
from router.delivery.wire.frames import parse_head
from router.delivery.wire.publish_faults import NO_STREAM, TOO_LARGE

PublishAcks = tuple[PublishAck, ...]


class NotPublished(Struct, frozen=True):
    """Why an effect could not be stored: the broker's error number, 0 when it did not say whether
    it is stored.
    """

    subject: str
    err_code: int
    cause: str


PublishCallback = Callable[[PublishAcks | NotPublished], None]


class EffectPublisher(Protocol):
    """`AckedPublisher` or `BatchingPublisher`."""

    def publish(self, effects: Sequence[Effect], callback: PublishCallback) -> None: ...

    async def publish_and_wait(self, effects: Sequence[Effect]) -> PublishAcks | NotPublished: ...


class PublishGroup:
    """Several effects of one message that wait for their publish acks."""

    __slots__ = ("callback", "publish_acks", "waiting")

    def __init__(self, count: int, callback: PublishCallback) -> None:
        self.waiting = count  # 0 = the callback was called
        self.publish_acks: list[PublishAck | None] = [None] * count
        self.callback = callback

    def take(self, place: int, result: PublishAcks | NotPublished) -> None:
        """The callback of the effect at this place."""
        if not self.waiting:
            return
        if isinstance(result, NotPublished):
            self.waiting = 0
            self.callback(result)
            return
        self.publish_acks[place] = result[0]
        self.waiting -= 1
        if not self.waiting:
            self.callback(tuple(r for r in self.publish_acks if r is not None))


class PendingPublish(Struct):
    """One effect that waits for its publish ack. `others`: the callbacks of the same effect,
    published again. Times are steady seconds.
    """

    effect: Effect
    sent_at: float
    callback: PublishCallback  # with one publish ack
    others: list[PublishCallback] | None = None


class AckedPublisher:
    """For one connection. The caller calls `expire` now and then."""

    def __init__(
        self, jetstream: JetStream, timeout_s: float = 5.0, known: KnownEffects | None = None
    ) -> None:
        self._jetstream = jetstream
        self._known_effects = known
        # effects with an owner that wait for a publish ack, by id
        self._owned: dict[str, PendingPublish] = {}
        self._connection = connection = jetstream.connection
        self._timeout_s = timeout_s
        self._inbox = connection.new_inbox() + "."
        self._pending: dict[str, PendingPublish] = {}  # by inbox, oldest first
        self._probes = PublishProbes()
        self._reconnects = connection.reconnect_count  # when what waits was sent
        self._checks: set[asyncio.Task[None]] = set()
        # whether a stream is bound, by subject; as many as effects wait for that
        self._asking: dict[str, asyncio.Task[bool | None]] = {}
        self._waiting_callers: set[asyncio.Future[PublishAcks | NotPublished]] = set()
        self._count = 0
        self._sid = 0
        self._now = steady
        # how an effect goes to its stream; `BatchingPublisher` has another way for slow ones
        self._carry: Callable[[PendingPublish], None] = self._send

    async def open(self) -> None:
        self._sid = await self._connection.subscribe_raw(self._inbox + "*", self._on_publish_ack)

    async def close(self) -> None:
        """Callers of `publish_and_wait` that still wait get NotPublished, because they may outlive
        the publisher.
        """
        await self._connection.unsubscribe(self._sid)
        for future in self._waiting_callers:
            if not future.done():
                future.set_result(NotPublished("", 0, "the publisher is closed"))

    @property
    def pending(self) -> int:
        return len(self._pending)

    def publish(self, effects: Sequence[Effect], callback: PublishCallback) -> None:
        """Publish effects. `callback` is called once, later, never inside this call."""
        now = self._now()
        if len(effects) == 1:  # nearly always
            pending = PendingPublish(effects[0], now, callback)
            if self._is_needed(pending):
                self._carry(pending)
            return
        self._publish_group(effects, callback, now)

    def publish_one(self, effect: Effect, callback: PublishCallback) -> None:
        """`publish` of one effect without an owner, for what is written once a message."""
        self._carry(PendingPublish(effect, self._now(), callback))

    def _publish_group(
        self, effects: Sequence[Effect], callback: PublishCallback, now: float
    ) -> None:
        group = PublishGroup(len(effects), callback)
        for place, effect in enumerate(effects):
            pending = PendingPublish(effect, now, partial(group.take, place))
            if self._is_needed(pending):
                self._carry(pending)

    def _is_needed(self, pending: PendingPublish) -> bool:
        """Whether the effect must be published. If an earlier copy is stored or on its way, that
        copy's publish ack is used.
        """
        effect, known_effects = pending.effect, self._known_effects
        if known_effects is None or not effect.owner:
            return True
        if (
            publish_ack := known_effects.publish_ack_of(
                effect, self._connection.reconnect_count, pending.sent_at
            )
        ) is not None:
            asyncio.get_running_loop().call_soon(pending.callback, (publish_ack,))
            return False
        if (first := self._owned.get(effect.id)) is not None:
            first.others = [*(first.others or ()), pending.callback]
            return False
        self._owned[effect.id] = pending
        return True

    def _send(self, pending: PendingPublish) -> None:
        effect = pending.effect
        head = head_with_id(effect.headers, effect.id)
        # the server would close the connection
        if len(effect.data) + len(head) > self._connection.max_payload:
            self._reject_too_large(pending)
            return
        self._count += 1  # `_make_inbox` and `_put` in place: once a message
        inbox = f"{self._inbox}{self._count}"
        self._pending[inbox] = pending
        # else `expire` sends it: the write buffer would keep each copy of an effect that is tried
        # again
        if self._connection.is_connected:
            self._connection.publish_nowait(effect.subject, effect.data, inbox, head)

    def _make_inbox(self) -> str:
        self._count += 1
        return f"{self._inbox}{self._count}"

    def _put(self, effect: Effect, inbox: str) -> None:
        self._connection.publish_nowait(
            effect.subject, effect.data, inbox, head_with_id(effect.headers, effect.id)
        )

    async def publish_and_wait(self, effects: Sequence[Effect]) -> PublishAcks | NotPublished:
        """For retries after a pause, and for commands. Costs a future."""
        future: asyncio.Future[PublishAcks | NotPublished] = (
            asyncio.get_running_loop().create_future()
        )
        self.publish(effects, lambda result: None if future.done() else future.set_result(result))
        self._waiting_callers.add(future)
        try:
            return await future
        finally:
            self._waiting_callers.discard(future)

    def expire(self) -> None:
        """Called by a timer: report effects without a publish ack in time as not published,
        although the stream may have stored them.

        It also sends again what may be lost.
        """
        now = self._now()
        if self._connection.is_connected and self._reconnects != self._connection.reconnect_count:
            self._reconnects = self._connection.reconnect_count
            self._send_again(list(self._pending), now)
        while self._pending:
            inbox, pending = next(iter(self._pending.items()))
            if pending.sent_at > now - self._timeout_s:
                break
            del self._pending[inbox]
            denied = self._connection.denials.find(pending.effect.subject)
            self._reject(pending, 0, str(denied or "no publish ack in time"))
        self._probes.forget(now - self._timeout_s)
        if self._pending and self._connection.is_connected:
            self._send_probes(now)

    def _send_probes(self, now: float) -> None:
        waiting = (
            (inbox, pending.effect.subject, pending.sent_at)
            for inbox, pending in self._pending.items()
        )
        for group, inbox in self._probes.find_due(waiting, now).items():
            self._probes.add(own := self._make_inbox(), Probe(inbox, group, now))
            self._put(self._pending[inbox].effect, own)

    def _send_again(self, inboxes: Sequence[str], now: float) -> None:
        """Their first copies are lost: they have all their time again.

        A server whose `max_payload` was lowered would close the connection again for what is above
        it.
        """
        for inbox in inboxes:
            pending = self._pending.pop(inbox)
            if self._is_too_large(pending.effect):
                self._reject_too_large(pending)
                continue
            self._pending[inbox] = pending
            pending.sent_at = now
            self._put(pending.effect, inbox)

    def _is_too_large(self, effect: Effect, more: int = 0) -> bool:
        """`more`: bytes of further headers."""
        return (
            len(effect.data) + len(head_with_id(effect.headers, effect.id)) + more
            > self._connection.max_payload
        )

    def _reject_too_large(self, pending: PendingPublish) -> None:
        asyncio.get_running_loop().call_soon(
            self._reject, pending, TOO_LARGE, "it is larger than the connection allows"
        )

    def _on_publish_ack(
        self, subject: bytes, _reply: bytes, data: bytes, head: bytes | None
    ) -> None:
        try:
            inbox = subject.decode("utf-8", "replace")
            pending = self._pending.pop(inbox, None)
            if pending is not None:
                self._on_answer(pending, data, head)
            else:
                self._on_probe_answer(inbox, data, head)
        except (Exception, asyncio.CancelledError) as exc:  # the reader must go on
            self._connection.on_fault(exc)

    def _on_probe_answer(self, inbox: str, data: bytes, head: bytes | None) -> None:
        probe = self._probes.pop(inbox)
        if probe is not None and probe.inbox in self._pending and _is_about_first(data):
            self._on_answer(self._pending.pop(probe.inbox), data, head)
            self._send_again(self._list_lost(probe), self._now())

    def _list_lost(self, probe: Probe) -> list[str]:
        """What waits, was sent before the probe, and has the same leader."""
        before = takewhile(lambda waiting: waiting[1].sent_at < probe.at, self._pending.items())
        return [
            inbox for inbox, pending in before if group_of(pending.effect.subject) == probe.group
        ]

    def _on_answer(self, pending: PendingPublish, data: bytes, head: bytes | None) -> None:
        if not data:
            has_no_stream = head is not None and (parse_head(head) or {}).get("Status") == "503"
            if has_no_stream:
                self._begin_check(self._reject_without_stream(pending))
            else:
                self._reject(pending, 0, "an empty publish ack")
            return
        answer = read_publish_ack(data)
        if answer is None:
            self._reject(pending, 0, "the publish ack cannot be read")
        elif (error := answer.error) is not None:
            # That an earlier copy is in process says as little as silence: it may be stored, or be
            # lost with its leader.
            self._reject(
                pending, 0 if error.err_code == IN_PROCESS else error.err_code, error.description
            )
        else:
            effect = pending.effect
            publish_ack = PublishAck(effect.id, answer.stream, answer.seq, answer.duplicate)
            if publish_ack.is_duplicate and effect.is_dead_letter:
                self._begin_check(self._check_dead_letter(pending, publish_ack))
            else:
                self._accept(pending, publish_ack)

    def _begin_check(self, checking: Coroutine[None, None, None]) -> None:
        check = asyncio.get_running_loop().create_task(checking)
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)

    async def _reject_without_stream(self, pending: PendingPublish) -> None:
        subject = pending.effect.subject
        if (asking := self._asking.get(subject)) is None:
            asking = self._asking[subject] = asyncio.get_running_loop().create_task(
                self._jetstream.is_bound(subject)
            )
            asking.add_done_callback(lambda _: self._asking.pop(subject, None))
        err_code = NO_STREAM if await asking is False else 0
        self._reject(pending, err_code, "no stream takes this subject")

    async def _check_dead_letter(self, pending: PendingPublish, publish_ack: PublishAck) -> None:
        try:
            stored = await self._jetstream.message(publish_ack.stream, publish_ack.sequence)
        except Exception as exc:  # of any kind: the callback must be called
            self._reject(
                pending, 0, exc.code if isinstance(exc, RouterError) else type(exc).__name__
            )
            return
        if stored is not None and stored.headers.get("Nats-Msg-Id") == publish_ack.id:
            self._accept(pending, publish_ack)
        else:
            copy = replace(pending.effect, id=f"{pending.effect.id}:{publish_ack.sequence}")
            self._send(PendingPublish(copy, self._now(), pending.callback))

    def _accept(self, pending: PendingPublish, publish_ack: PublishAck) -> None:
        others: Sequence[PublishCallback] = ()
        if self._known_effects is not None and pending.effect.owner:
            others = self._remove_owned(pending)
            self._known_effects.keep(pending.effect, publish_ack, self._now())
        try:  # `_tell` in place: once a message
            pending.callback((publish_ack,))
        except (Exception, asyncio.CancelledError) as exc:
            self._connection.on_fault(exc)
        for callback in others:
            self._tell(callback, (replace(publish_ack, is_duplicate=True),))

    def _tell(self, callback: PublishCallback, result: PublishAcks | NotPublished) -> None:
        """A callback that raises takes nothing from the others."""
        try:
            callback(result)
        except (Exception, asyncio.CancelledError) as exc:
            self._connection.on_fault(exc)

    def _remove_owned(self, pending: PendingPublish) -> Sequence[PublishCallback]:
        """Forget that the effect is on its way; returns the callbacks that wait for the same
        publish ack.
        """
        if self._owned.get(pending.effect.id) is pending:
            del self._owned[pending.effect.id]
        return pending.others or ()

    def _reject(self, pending: PendingPublish, err_code: int, cause: str) -> None:
        effect = pending.effect
        for callback in (pending.callback, *self._remove_owned(pending)):
            self._tell(callback, NotPublished(effect.subject, err_code, cause))


def _is_about_first(data: bytes) -> bool:
    """Whether the answer to a second copy tells of the first. A refusal says nothing, for the first
    may be in process; unless the subject has another last sequence: then the first cannot be stored
    any more, or is.
    """
    answer = read_publish_ack(data)
    return answer is not None and (
        answer.error is None or answer.error.err_code == WRONG_LAST_SEQUENCE
    )
