"""An agent's protocol together with its store's thread: the consumers call it on the event loop, it works in the thread."""

from __future__ import annotations

from collections.abc import Sequence

from router.agents.adapter import AgentAdapter
from router.agents.batch import BatchProcessor
from router.agents.database import StoreFile
from router.agents.outgoing import HEADER_ROOM_BYTES, OutputRules
from router.agents.publish_acks import PublishAckBuffer
from router.agents.resume import resume
from router.agents.store import Store
from router.agents.thread import StoreThread
from router.agents.topology import AgentTopology
from router.core.message import Message
from router.core.outcome import Commit, Outcome, PublishAck
from router.delivery.wire.api import JetStream


class StoreWorker:
    """Everything that uses the store, on the event loop's side."""

    def __init__(
        self, adapter: AgentAdapter, database: StoreFile, thread: StoreThread, topology: AgentTopology, *, max_payload: int
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
        await resume(self._batch, self._store, self.publish_acks, thread=self._thread, jetstream=jetstream, limit=self._limit)

    async def flush(self) -> None:
        """Write the publish acks that no batch has written."""
        await self._thread.run(self._write_marks)

    def _build_mark_dead(self, place: int) -> Commit:
        async def run(_: Sequence[PublishAck]) -> None:
            await self._thread.run(self._mark_dead, place)

        return run

    # -- in the store's thread -----------------------------------------------------------------------------------

    def _write_marks(self) -> None:
        if marks := self.publish_acks.take():
            with self._store.transaction():
                self._store.mark(marks)

    def _mark_dead(self, place: int) -> None:
        with self._store.transaction():
            self._store.mark_dead([place])
