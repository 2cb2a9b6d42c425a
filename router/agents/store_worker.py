"""An agent's protocol together with its store's thread: the consumers call it on the event loop, it
works in the thread, and the loop goes on sending heartbeats.

`resume` stands first: before an agent fetches, it finishes what an earlier run left half done.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from router.agents.adapter import AgentAdapter
from router.agents.batch import BatchProcessor
from router.agents.database import StoreFile
from router.agents.outgoing import HEADER_ROOM_BYTES, OutputRules, PublishAckBuffer, effect_of
from router.agents.store import OutgoingRow, Store
from router.agents.topology import AgentTopology
from router.core.message import Message
from router.core.outcome import Commit, Outcome, PublishAck
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished, PublishAcks
from router.delivery.publish.storing import open_publisher
from router.delivery.wire.api import JetStream
from router.delivery.wire.publish_faults import PublishFault, find_fault
from router.process.observability import LogRateLimit, events, logs

# -- The store's own thread: while SQLite works, the event loop goes on sending heartbeats.


T = TypeVar("T")


class StoreThread:
    """Runs one call at a time, in the order of the calls."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="event-store")

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Raises what `work` raises. Work that was begun goes on when its caller is cancelled."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)

    async def close(self) -> None:
        """Returns when the last call has ended; the event loop goes on meanwhile, and can handle a
        second signal.
        """
        await asyncio.to_thread(self._executor.shutdown)


# -- An agent's protocol together with its store's thread: the consumers call it on the event
# loop, it works in the thread.


# -- What an earlier run left half done (docs/explanation/durability.md#protocol).
#
# received, not applied    apply them one by one; each attempt is recorded first, so one that kills
# the process affects no other
# applied, not sent        publish under the same ids; wait while the broker does not answer
# └─ refused           left: it is too large, or its stream is full, missing or sealed. Its cause
# has a dead letter, or
#                          comes again, and a later start sends it again

log = logs.logger(__name__)

PUBLISH_RETRY_S = 1.0


async def resume(
    batch: BatchProcessor,
    store: Store,
    publish_acks: PublishAckBuffer,
    *,
    thread: StoreThread,
    jetstream: JetStream,
    limit: int,
) -> None:
    """Raises StoreFailed."""
    rows = await thread.run(store.list_resumable, limit)
    applied = [await thread.run(batch.resume, row) for row in rows]
    sent = await _send(store, publish_acks, thread, jetstream)
    if rows or sent:
        log.info(events.AGENT_RESUMED, received=len(rows), applied=sum(applied), sent=sent)


async def _send(
    store: Store, publish_acks: PublishAckBuffer, thread: StoreThread, jetstream: JetStream
) -> int:
    """Publish every message without a publish ack; return how many there were."""
    count, after = 0, (0, -1)
    async with open_publisher(jetstream) as acked_publisher:
        while page := await thread.run(store.list_unsent, *after):
            await thread.run(publish_acks.expect, page)
            results = await asyncio.gather(*(_insist(acked_publisher, row) for row in page))
            stored = [result[0] for result in results if not isinstance(result, NotPublished)]
            publish_acks.note(stored)
            await thread.run(_write_down, store, publish_acks)
            _report_left([result for result in results if isinstance(result, NotPublished)])
            count, after = count + len(stored), (page[-1].place, page[-1].number)
    return count


async def _insist(acked_publisher: AckedPublisher, row: OutgoingRow) -> PublishAcks | NotPublished:
    """Publish until the broker answers: what it refuses must not keep the agent from its other
    work.
    """
    effects, lines = (effect_of(row),), LogRateLimit(every_s=60.0)
    while isinstance(result := await acked_publisher.publish_and_wait(effects), NotPublished):
        if find_fault(result.err_code) is not PublishFault.SERVER:
            break
        if lines.allow(row.subject):
            log.error(events.PUBLISH_FAILED, subject=result.subject, cause=result.cause)
        await asyncio.sleep(PUBLISH_RETRY_S)
    return result


def _report_left(refusals: Sequence[NotPublished]) -> None:
    """One line for each subject."""
    for subject, count in Counter(refusal.subject for refusal in refusals).items():
        cause = next(refusal.cause for refusal in refusals if refusal.subject == subject)
        log.error(events.AGENT_UNSENT, subject=subject, count=count, cause=cause)


def _write_down(store: Store, publish_acks: PublishAckBuffer) -> None:
    with store.transaction():
        store.mark(publish_acks.take())


class StoreWorker:
    """Everything that uses the store, on the event loop's side."""

    def __init__(
        self,
        adapter: AgentAdapter,
        database: StoreFile,
        thread: StoreThread,
        topology: AgentTopology,
        *,
        max_payload: int,
    ) -> None:
        self.publish_acks = PublishAckBuffer()
        self._thread = thread
        self._limit = topology.max_deliver
        self._store = Store(database, adapter.name)
        rules = OutputRules(topology.is_bound, max_payload - HEADER_ROOM_BYTES)
        self._batch = BatchProcessor(
            adapter,
            self._store,
            self.publish_acks,
            limit=self._limit,
            rules=rules,
            mark_dead=self._build_mark_dead,
            max_bytes=topology.max_payload_bytes,
        )

    @property
    def duplicates(self) -> int:
        return self._batch.duplicates

    async def handle(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Handle a batch of messages. Raises StoreFailed."""
        return await self._thread.run(self._batch.handle, messages)

    async def resume(self, jetstream: JetStream) -> None:
        await resume(
            self._batch,
            self._store,
            self.publish_acks,
            thread=self._thread,
            jetstream=jetstream,
            limit=self._limit,
        )

    async def flush(self) -> None:
        """Write the publish acks that no batch has written."""
        await self._thread.run(self._write_marks)

    def _build_mark_dead(self, place: int) -> Commit:
        async def run(_: Sequence[PublishAck]) -> None:
            await self._thread.run(self._mark_dead, place)

        return run

    # -- in the store's thread ---------------------------------------------------------------------

    def _write_marks(self) -> None:
        if marks := self.publish_acks.take():
            with self._store.transaction():
                self._store.mark(marks)

    def _mark_dead(self, place: int) -> None:
        with self._store.transaction():
            self._store.mark_dead([place])
