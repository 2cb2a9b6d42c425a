"""Before an agent fetches: finish what its earlier run left half done (docs/explanation/durability.md#protocol).

received, not applied    apply them one by one; each attempt is recorded first, so one that kills the process affects no other
applied, not sent        publish under the same ids; wait until the broker stores them
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from router.delivery.acked_publisher import AckedPublisher, NotPublished
from router.delivery.api import JetStream
from router.delivery.storing import open_publisher
from router.operations.observability import events, logs
from router.runtime.batch import BatchProcessor
from router.runtime.outgoing import effect_of
from router.runtime.publish_acks import PublishAckBuffer
from router.runtime.rows import OutgoingRow
from router.runtime.store import Store
from router.runtime.thread import StoreThread

log = logs.logger(__name__)

PUBLISH_RETRY_S = 1.0


async def resume(
    batch: BatchProcessor, store: Store, publish_acks: PublishAckBuffer, *, thread: StoreThread, jetstream: JetStream, limit: int
) -> None:
    """Raises StoreFailed."""
    rows = await thread.run(store.list_resumable, limit)
    applied = [await thread.run(batch.resume, row) for row in rows]
    sent = await _send(store, publish_acks, thread, jetstream)
    if rows or sent:
        log.info(events.AGENT_RESUMED, received=len(rows), applied=sum(applied), sent=sent)


async def _send(store: Store, publish_acks: PublishAckBuffer, thread: StoreThread, jetstream: JetStream) -> int:
    """Publish every message without a publish ack; return how many there were."""
    count, after = 0, (0, -1)
    async with open_publisher(jetstream) as acked_publisher:
        while page := await thread.run(store.list_unsent, *after):
            await thread.run(publish_acks.expect, page)
            await _insist(acked_publisher, publish_acks, page)
            await thread.run(_write_down, store, publish_acks)
            count, after = count + len(page), (page[-1].place, page[-1].number)
    return count


async def _insist(acked_publisher: AckedPublisher, publish_acks: PublishAckBuffer, page: Sequence[OutgoingRow]) -> None:
    effects = [effect_of(one) for one in page]
    while isinstance(result := await acked_publisher.publish_and_wait(effects), NotPublished):
        log.error(events.PUBLISH_FAILED, subject=result.subject, cause=result.cause)
        await asyncio.sleep(PUBLISH_RETRY_S)
    publish_acks.note(result)


def _write_down(store: Store, publish_acks: PublishAckBuffer) -> None:
    with store.transaction():
        store.mark(publish_acks.take())
