"""Publish the effects of many messages as one atomic batch, where that pays (`atomic_publisher`).

    publish ──> waiting ──> a run: all effects that wait for the same stream, in their order
                            ├─ few, or a stream that takes no batches    one by one (`AckedPublisher`)
                            └─ many                                      one batch, one publish ack for all
                                 └─ refused (the stream knows an id)     one by one, each with its own result

While a batch is on its way the other effects wait for the next run, so none overtakes another. A
batch without a publish ack in time is reported as not stored; publishing it again is harmless,
because ids are deterministic.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from router.core.message import Effect
from router.delivery.publish.acked_publisher import (
    AckedPublisher,
    NotPublished,
    PublishAcks,
    PublishCallback,
)
from router.delivery.publish.atomic_publisher import BATCHES_NOT_ENABLED, MAX_BATCH, AtomicPublisher
from router.delivery.wire.api import JetStream

# a batch has a price of its own, 2.5 ms: below this, publish acks one by one cost less
MIN_BATCH = 20

StreamOf = Callable[[str], str | None]  # which stream takes a subject; None: it is stored by itself
Wanted = tuple[str | None, Sequence[Effect], PublishCallback]  # their stream, if it is one


class BatchingPublisher:
    """An EffectPublisher for one subscription whose streams take batches."""

    def __init__(
        self,
        jetstream: JetStream,
        publisher: AckedPublisher,
        *,
        stream_of: StreamOf,
        tasks: asyncio.TaskGroup,
        timeout_s: float,
    ) -> None:
        self._publisher = publisher
        self._batches = AtomicPublisher(jetstream, timeout_s)
        self._stream_of = stream_of
        self._tasks = tasks
        self._waiting: deque[Wanted] = deque()
        self._plain: set[str] = set()  # streams that said they take no batches
        self._work: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._batches.open()

    async def close(self) -> None:
        """Cancel the publish in progress. Its callbacks are not called."""
        if self._work is not None:
            self._work.cancel()
        await self._batches.close()

    def publish(self, effects: Sequence[Effect], callback: PublishCallback) -> None:
        """Publish effects. `callback` is called once, later, never inside this call."""
        self._waiting.append((self._find_stream(effects), effects, callback))
        if self._work is None:
            self._work = self._tasks.create_task(self._store_waiting())

    async def publish_and_wait(self, effects: Sequence[Effect]) -> PublishAcks | NotPublished:
        return await self._publisher.publish_and_wait(effects)

    def _find_stream(self, effects: Sequence[Effect]) -> str | None:
        stream = self._stream_of(effects[0].subject)
        for effect in effects[1:]:
            if self._stream_of(effect.subject) != stream:
                return None  # they must keep their order, so none of them may go into a batch
        return stream

    async def _store_waiting(self) -> None:
        try:
            while self._waiting:
                stream, run = self._next_run()
                effects = [effect for _, some, _ in run for effect in some]
                if (
                    stream is not None
                    and stream not in self._plain
                    and MIN_BATCH <= len(effects) <= MAX_BATCH
                ):
                    await self._store_batch(stream, run, effects)
                else:
                    self._store_singly(run)
        finally:
            self._work = None

    def _next_run(self) -> tuple[str | None, list[Wanted]]:
        first = self._waiting.popleft()
        run, count = [first], len(first[1])
        while (
            self._waiting
            and self._waiting[0][0] == first[0]
            and (count := count + len(self._waiting[0][1])) <= MAX_BATCH
        ):
            run.append(self._waiting.popleft())
        return first[0], run

    async def _store_batch(
        self, stream: str, run: Sequence[Wanted], effects: Sequence[Effect]
    ) -> None:
        result = await self._batches.publish(effects)
        if not isinstance(result, NotPublished):
            at = 0
            for _, some, callback in run:
                callback(result[at : at + len(some)])
                at += len(some)
        elif result.err_code:
            if result.err_code == BATCHES_NOT_ENABLED:
                self._plain.add(stream)
            self._store_singly(run)
        else:  # no answer in time
            for _, _, callback in run:
                callback(result)

    def _store_singly(self, run: Sequence[Wanted]) -> None:
        for _, effects, callback in run:
            self._publisher.publish(effects, callback)
