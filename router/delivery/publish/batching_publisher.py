"""Store a stream's effects together where its publish acks are dear (`publish_costs`).

    cheap    an effect goes at once, with a publish ack of its own
    dear     an effect waits for those on their way, or else for a tenth of a publish ack; what
             waits then goes as one atomic batch (`atomic_publisher`), or one by one where that is
             sooner
               ├─ refused (the stream knows an id)   one by one, each with its own result
               └─ silent                             one by one: the ids tell what is stored

No effect overtakes another: the server takes what a connection sends to a stream in its order. An
effect that waits alone goes after a tenth of a publish ack, also while others are on their way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from secrets import token_hex

from msgspec import Struct

from router.core.message import Effect
from router.delivery.publish.acked_publisher import (
    AckedPublisher,
    NotPublished,
    PendingPublish,
    PublishAcks,
    PublishCallback,
)
from router.delivery.publish.atomic_publisher import (
    BATCHES_NOT_ENABLED,
    HEAD_ROOM,
    MAX_BATCH,
    read_batch_ack,
    write_batch,
)
from router.delivery.publish.known_effects import KnownEffects
from router.delivery.publish.publish_costs import PublishCosts
from router.delivery.wire.api import JetStream
from router.delivery.wire.frames import parse_head

MAX_BATCH_BYTES = 8 << 20  # the server keeps a batch apart until its last message
PATIENCE_S = 1.0  # with a batch that is silent; more where the stream is slow
SLOW = 4.0  # times what its messages would take one by one

# which stream takes a subject, asked for each message; None: it goes by itself
StreamOf = Callable[[str], str | None]


class OpenBatch(Struct):
    """A batch without its publish ack. Times are steady seconds."""

    inbox: str
    pendings: list[PendingPublish]
    began: float
    until: float


class EffectStream(Struct):
    """What is on its way to one stream, and what waits."""

    costs: PublishCosts
    is_dear: bool = False
    takes_batches: bool = True
    on_the_way: int = 0  # one by one, since the stream is dear
    waiting: list[PendingPublish] = []
    batch: OpenBatch | None = None
    is_sampled: bool = False  # the publish ack of what is on its way will be timed
    release: asyncio.TimerHandle | None = None


class BatchingPublisher(AckedPublisher):
    """An `AckedPublisher` that writes to some streams in batches."""

    def __init__(
        self,
        jetstream: JetStream,
        timeout_s: float = 5.0,
        known: KnownEffects | None = None,
        *,
        stream_of: StreamOf,
        make_costs: Callable[[], PublishCosts] = PublishCosts,
    ) -> None:
        super().__init__(jetstream, timeout_s, known)
        self._make_costs = make_costs
        self._stream_of = stream_of
        self._name = token_hex(4)  # short, because every stored message has it as a header
        self._streams: dict[str, EffectStream] = {}
        self._open: dict[str, EffectStream] = {}  # by the inbox of their batch
        # one of their own: the publish acks of all others come past none of this
        self._batch_inbox = self._connection.new_inbox() + "."
        self._batch_sid = 0
        self._carry = self._send_in_turn  # until `expire` has looked at what there is

    async def open(self) -> None:
        await super().open()
        self._batch_sid = await self._connection.subscribe_raw(
            self._batch_inbox + "*", self._on_batch_ack
        )

    async def close(self) -> None:
        await self._connection.unsubscribe(self._batch_sid)
        for stream in self._streams.values():
            if stream.release is not None:
                stream.release.cancel()
        await super().close()

    @property
    def pending(self) -> int:
        batches = (
            stream.batch.pendings for stream in self._streams.values() if stream.batch is not None
        )
        waiting = sum(len(stream.waiting) for stream in self._streams.values())
        return super().pending + waiting + sum(map(len, batches))

    def _publish_group(
        self, effects: Sequence[Effect], callback: PublishCallback, now: float
    ) -> None:
        """Effects of several streams keep their order, so none of them waits."""
        is_split = len({id(self._find(effect.subject)) for effect in effects}) > 1
        if is_split and self._has_turns:
            for stream in self._streams.values():
                self._send_waiting_singly(stream)
            self._carry = self._send
        super()._publish_group(effects, callback, now)
        self._choose_way()

    @property
    def _has_turns(self) -> bool:
        return any(
            stream.is_dear or stream.batch is not None or stream.waiting
            for stream in self._streams.values()
        )

    def _choose_way(self) -> None:
        """While no stream is dear, an effect costs nothing here."""
        self._carry = self._send_in_turn if self._has_turns else self._send

    def _find(self, subject: str) -> EffectStream | None:
        """The stream of a subject, if it is one that takes batches."""
        name = self._stream_of(subject)
        return None if name is None else self._streams.get(name) or self._learn(name)

    def _learn(self, name: str) -> EffectStream:
        costs = self._make_costs()
        stream = self._streams[name] = EffectStream(costs, is_dear=costs.is_dear)
        return stream

    def _send_in_turn(self, pending: PendingPublish) -> None:
        stream = self._find(pending.effect.subject)
        if stream is None or not (stream.is_dear or stream.batch is not None or stream.waiting):
            self._send(pending)
        # only then is it worth a look at its headers
        elif len(pending.effect.data) > self._connection.max_payload // 2 and self._is_too_large(
            pending.effect
        ):
            self._reject_too_large(pending)
        else:  # it waits for company
            stream.waiting.append(pending)
            if stream.release is None:
                stream.release = asyncio.get_running_loop().call_later(
                    stream.costs.hold_s, self._release, stream
                )

    def _release(self, stream: EffectStream) -> None:
        stream.release = None
        if len(stream.waiting) == 1:
            self._send_waiting_singly(stream)
        else:
            self._go_on(stream)

    def _send_waiting_singly(self, stream: EffectStream) -> None:
        waiting, stream.waiting = stream.waiting, []
        self._send_singly(stream, waiting)

    def _send_singly(self, stream: EffectStream, pendings: Sequence[PendingPublish]) -> None:
        if not pendings:
            return
        now = self._now()
        stream.on_the_way += len(pendings)
        for pending in pendings:
            pending.sent_at = now
            pending.callback = partial(self._on_single, stream, pending.callback)
        self._begin_sample(stream, pendings[-1], len(pendings), now)
        for pending in pendings:
            self._send(pending)

    def _on_single(
        self, stream: EffectStream, callback: PublishCallback, result: PublishAcks | NotPublished
    ) -> None:
        try:
            callback(result)
        finally:  # also of a callback that raises: what waits has its turn
            stream.on_the_way -= 1
            self._go_on(stream)

    def _begin_sample(
        self, stream: EffectStream, last: PendingPublish, messages: int, now: float
    ) -> None:
        """Measure how long so many take, by the publish ack of the last of them."""
        if not stream.is_sampled:
            stream.is_sampled = True
            last.callback = partial(self._end_sample, stream, last.callback, messages, now)

    def _end_sample(
        self,
        stream: EffectStream,
        callback: PublishCallback,
        messages: int,
        began: float,
        result: PublishAcks | NotPublished,
    ) -> None:
        now = self._now()
        stream.is_sampled = False
        if not isinstance(result, NotPublished):
            stream.costs.add_singles(messages, now - began, now)
        callback(result)

    def _sample_cheap(self) -> None:
        """Of a stream that is not dear, what is on its way now is measured; where that is slow, a
        batch is tried.
        """
        now = self._now()
        newest: dict[int, tuple[EffectStream, PendingPublish, int]] = {}
        for pending in self._pending.values():
            if (stream := self._find(pending.effect.subject)) is not None:
                _, _, before = newest.get(id(stream), (stream, pending, 0))
                newest[id(stream)] = (stream, pending, before + 1)
        for stream, pending, messages in newest.values():
            if not stream.is_dear and stream.takes_batches:
                stream.is_dear = stream.costs.begin_trial(messages, now)
                self._begin_sample(stream, pending, messages, now)

    def _go_on(self, stream: EffectStream) -> None:
        """Send what waits when nothing is on its way any more."""
        if not stream.waiting or stream.on_the_way or stream.batch is not None:
            return
        batch, rest = self._split(stream.waiting)
        is_batch = (
            stream.takes_batches
            and self._connection.is_connected
            and stream.costs.pays(len(batch))
            and not stream.costs.is_single_due(len(batch), self._now())
        )
        if is_batch:
            stream.waiting = rest
            self._post_batch(stream, batch)
        else:
            self._send_waiting_singly(stream)

    def _split(
        self, waiting: list[PendingPublish]
    ) -> tuple[list[PendingPublish], list[PendingPublish]]:
        """What goes into the next batch, and what waits on. What the headers of a batch would make
        too large goes by itself.
        """
        size, large_bytes = 0, self._connection.max_payload // 2
        for place, pending in enumerate(waiting[: MAX_BATCH + 1]):
            own_size = len(pending.effect.data)
            size += own_size
            if (
                place == MAX_BATCH
                or size > MAX_BATCH_BYTES
                or (own_size > large_bytes and self._is_too_large(pending.effect, HEAD_ROOM))
            ):
                return waiting[: max(1, place)], waiting[max(1, place) :]
        return waiting, []

    def _post_batch(self, stream: EffectStream, pendings: list[PendingPublish]) -> None:
        self._count += 1
        now, inbox = self._now(), f"{self._batch_inbox}{self._count}"
        patience_s = max(PATIENCE_S, SLOW * len(pendings) * stream.costs.each_s)
        stream.batch = OpenBatch(inbox, pendings, now, now + patience_s)
        self._open[inbox] = stream
        effects = [pending.effect for pending in pendings]
        write_batch(self._connection, effects, f"{self._name}{self._count}", inbox)

    def _on_batch_ack(self, subject: bytes, _reply: bytes, data: bytes, head: bytes | None) -> None:
        stream = self._open.pop(subject.decode("utf-8", "replace"), None)
        if stream is None or stream.batch is None:
            return
        batch, stream.batch = stream.batch, None
        try:
            self._on_batch(stream, batch, data, head)
            self._go_on(stream)
        except (Exception, asyncio.CancelledError) as exc:  # the reader must go on
            self._connection.on_fault(exc)

    def _on_batch(
        self, stream: EffectStream, batch: OpenBatch, data: bytes, head: bytes | None
    ) -> None:
        effects = [pending.effect for pending in batch.pendings]
        answer = read_batch_ack(effects, data, parse_head(head) if head else None)
        if isinstance(answer, NotPublished):
            stream.takes_batches = answer.err_code != BATCHES_NOT_ENABLED
            self._send_singly(stream, batch.pendings)
            return
        now = self._now()
        stream.costs.add_batch(len(effects), now - batch.began, now)
        stream.is_dear = stream.costs.is_dear
        for pending, publish_ack in zip(batch.pendings, answer, strict=True):
            self._accept(pending, publish_ack)

    def expire(self) -> None:
        """As an `AckedPublisher`'s; and what was sent in a batch that is silent, or whose
        connection was lost, goes one by one: its ids tell what is stored.
        """
        is_lost = self._reconnects != self._connection.reconnect_count
        now = self._now()
        for stream in self._streams.values():
            if is_lost:
                stream.takes_batches = True  # another server may take them
            if stream.batch is not None and (is_lost or stream.batch.until < now):
                self._give_up_batch(stream)
            self._reject_overdue_effects(stream, now - self._timeout_s)
        super().expire()
        self._sample_cheap()
        self._choose_way()

    def _give_up_batch(self, stream: EffectStream) -> None:
        batch, stream.batch = stream.batch, None
        if batch is not None:
            del self._open[batch.inbox]
            self._send_singly(stream, batch.pendings)

    def _reject_overdue_effects(self, stream: EffectStream, before: float) -> None:
        while stream.waiting and stream.waiting[0].sent_at <= before:
            self._reject(stream.waiting.pop(0), 0, "it waited for its turn")
