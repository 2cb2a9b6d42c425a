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
from secrets import token_hex

from msgspec import Struct

from router.core.message import Effect
from router.delivery.publish.acked_publisher import (
    AckedPublisher,
    NotPublished,
    PendingPublish,
    PublishCallback,
)
from router.delivery.publish.atomic_publisher import (
    BATCHES_NOT_ENABLED,
    MAX_BATCH,
    read_batch_ack,
    write_batch,
)
from router.delivery.publish.known_effects import KnownEffects
from router.delivery.publish.publish_costs import PublishCosts
from router.delivery.wire.api import JetStream
from router.delivery.wire.frame_parser import parse_head

MAX_BATCH_BYTES = 8 << 20  # the server keeps a batch apart until its last message
PATIENCE_S = 1.0  # with a batch that is silent; more where the stream is slow
SLOW = 4.0  # times what its messages would take one by one
MOST_SUBJECTS = 10_000  # whose stream is remembered: agents choose theirs

StreamOf = Callable[[str], str | None]  # which stream takes a subject; None: it goes by itself


class SinglesSample(Struct):
    """So many messages went one by one; the last one's publish ack tells how long they took."""

    last: PendingPublish
    messages: int
    began: float


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
    on_the_way: int = 0  # one by one
    waiting: list[PendingPublish] = []
    batch: OpenBatch | None = None
    sample: SinglesSample | None = None
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
        self._by_subject: dict[str, EffectStream | None] = {}
        self._open: dict[str, EffectStream] = {}  # by the inbox of their batch
        self._may_hold = True  # not while effects of several streams are sent

    async def close(self) -> None:
        for stream in self._streams.values():
            if stream.release is not None:
                stream.release.cancel()
        await super().close()

    @property
    def pending(self) -> int:
        batches = (one.batch.pendings for one in self._streams.values() if one.batch is not None)
        waiting = sum(len(one.waiting) for one in self._streams.values())
        return super().pending + waiting + sum(map(len, batches))

    def publish(self, effects: Sequence[Effect], callback: PublishCallback) -> None:
        """Publish effects. `callback` is called once, later, never inside this call.

        Effects of several streams keep their order, so none of them waits.
        """
        if len(effects) == 1 or len({id(self._find(one.subject)) for one in effects}) == 1:
            super().publish(effects, callback)
            return
        for stream in self._streams.values():
            self._send_waiting_singly(stream)
        self._may_hold = False
        try:
            super().publish(effects, callback)
        finally:
            self._may_hold = True

    def _find(self, subject: str) -> EffectStream | None:
        """The stream of a subject, if it is one that takes batches."""
        try:
            return self._by_subject[subject]
        except KeyError:
            return self._learn(subject)

    def _learn(self, subject: str) -> EffectStream | None:
        if len(self._by_subject) >= MOST_SUBJECTS:
            self._by_subject.clear()
        name = self._stream_of(subject)
        if name is not None and name not in self._streams:
            costs = self._make_costs()
            self._streams[name] = EffectStream(costs, is_dear=costs.is_dear)
        stream = self._by_subject[subject] = None if name is None else self._streams[name]
        return stream

    def _send(self, pending: PendingPublish) -> None:
        # `_find` in place: once a message
        stream = self._by_subject.get(pending.effect.subject) or self._find(pending.effect.subject)
        if stream is None:
            super()._send(pending)
        elif (stream.batch is None and not stream.is_dear) or not self._may_hold:
            stream.on_the_way += 1
            if stream.sample is None:
                stream.sample = SinglesSample(pending, stream.on_the_way, pending.sent_at)
            super()._send(pending)
        elif self._is_large(pending.effect) and self._is_too_large(pending.effect):
            self._reject_too_large(pending)
        else:
            self._hold(stream, pending)

    def _is_large(self, effect: Effect) -> bool:
        return len(effect.data) > self._connection.max_payload // 2

    def _hold(self, stream: EffectStream, pending: PendingPublish) -> None:
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
        self._post_singly(stream, waiting)

    def _post_singly(self, stream: EffectStream, pendings: Sequence[PendingPublish]) -> None:
        now = self._now()
        if pendings:
            stream.sample = SinglesSample(pendings[-1], stream.on_the_way + len(pendings), now)
        for pending in pendings:
            pending.sent_at = now
            stream.on_the_way += 1
            super()._send(pending)

    def _on_answer(self, pending: PendingPublish, data: bytes, head: bytes | None) -> None:
        super()._on_answer(pending, data, head)
        stream = self._by_subject.get(pending.effect.subject)
        if stream is None:
            return
        stream.on_the_way -= 1
        sample = stream.sample
        if sample is not None and sample.last is pending:
            self._end_sample(stream, sample)
        if stream.waiting:
            self._go_on(stream)

    def _end_sample(self, stream: EffectStream, sample: SinglesSample) -> None:
        now = self._now()
        stream.costs.add_singles(sample.messages, now - sample.began, now)
        stream.sample = self._begin_sample(stream, now)
        if not stream.is_dear and stream.takes_batches:
            stream.is_dear = stream.costs.is_batch_due(stream.on_the_way, now)

    def _begin_sample(self, stream: EffectStream, now: float) -> SinglesSample | None:
        """Measure what is on its way now, until its last publish ack."""
        last = next(reversed(self._pending.values()), None)
        if last is None or self._find(last.effect.subject) is not stream:
            return None
        return SinglesSample(last, stream.on_the_way, now)

    def _go_on(self, stream: EffectStream) -> None:
        """Send what waits when nothing is on its way any more."""
        if not stream.waiting or stream.on_the_way or stream.batch is not None:
            return
        batch, rest = _split(stream.waiting)
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

    def _post_batch(self, stream: EffectStream, pendings: list[PendingPublish]) -> None:
        self._count += 1
        now, inbox = self._now(), f"{self._inbox}{self._count}"
        patience_s = max(PATIENCE_S, SLOW * len(pendings) * stream.costs.each_s)
        stream.batch = OpenBatch(inbox, pendings, now, now + patience_s)
        self._open[inbox] = stream
        effects = [pending.effect for pending in pendings]
        write_batch(self._connection, effects, f"{self._name}{self._count}", inbox)

    def _take_publish_ack(self, inbox: str, data: bytes, head: bytes | None) -> None:
        stream = self._open.pop(inbox, None)
        if stream is None or stream.batch is None:
            super()._take_publish_ack(inbox, data, head)
        else:
            batch, stream.batch = stream.batch, None
            self._on_batch(stream, batch, data, head)
            self._go_on(stream)

    def _on_batch(
        self, stream: EffectStream, batch: OpenBatch, data: bytes, head: bytes | None
    ) -> None:
        effects = [pending.effect for pending in batch.pendings]
        answer = read_batch_ack(effects, data, parse_head(head) if head else None)
        if isinstance(answer, NotPublished):
            stream.takes_batches = answer.err_code != BATCHES_NOT_ENABLED
            self._post_singly(stream, batch.pendings)
            return
        now = self._now()
        stream.costs.add_batch(len(effects), now - batch.began, now)
        stream.is_dear = stream.costs.pays(len(effects))
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
        self._count_again()

    def _give_up_batch(self, stream: EffectStream) -> None:
        batch, stream.batch = stream.batch, None
        if batch is not None:
            del self._open[batch.inbox]
            self._post_singly(stream, batch.pendings)

    def _reject_overdue_effects(self, stream: EffectStream, before: float) -> None:
        while stream.waiting and stream.waiting[0].sent_at <= before:
            self._reject(stream.waiting.pop(0), 0, "it waited for its turn")

    def _count_again(self) -> None:
        """Some of what was on its way has no answer and is given up."""
        for stream in self._streams.values():
            stream.on_the_way = 0
        for pending in self._pending.values():
            if (single := self._find(pending.effect.subject)) is not None:
                single.on_the_way += 1
        for stream in self._streams.values():
            if not stream.on_the_way:
                stream.sample = None
            self._go_on(stream)


def _split(waiting: list[PendingPublish]) -> tuple[list[PendingPublish], list[PendingPublish]]:
    """What goes into the next batch, and what waits on."""
    size = 0
    for place, pending in enumerate(waiting[: MAX_BATCH + 1]):
        size += len(pending.effect.data)
        if place == MAX_BATCH or size > MAX_BATCH_BYTES:
            return waiting[: max(1, place)], waiting[max(1, place) :]
    return waiting, []
