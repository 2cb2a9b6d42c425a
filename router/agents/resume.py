"""Before an agent fetches: finish what its earlier run left half done (docs/explanation/durability.md#protocol).

received, not applied    apply them one by one; each attempt is recorded first, so one that kills the process affects no other
applied, not sent        publish under the same ids; wait while the broker does not answer
    └─ refused           left: it is too large, or its stream is full, missing or sealed. Its cause has a dead letter, or
                         comes again, and a later start sends it again
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from router.agents.batch import BatchProcessor
from router.agents.outgoing import effect_of
from router.agents.publish_acks import PublishAckBuffer
from router.agents.rows import OutgoingRow
from router.agents.store import Store
from router.agents.thread import StoreThread
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished, PublishAcks
from router.delivery.publish.storing import open_publisher
from router.delivery.wire.api import JetStream
from router.delivery.wire.publish_faults import PublishFault, find_fault
from router.process.observability import LogRateLimit, events, logs

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
            results = await asyncio.gather(*(_insist(acked_publisher, one) for one in page))
            stored = [result[0] for result in results if not isinstance(result, NotPublished)]
            publish_acks.note(stored)
            await thread.run(_write_down, store, publish_acks)
            _report_left([result for result in results if isinstance(result, NotPublished)])
            count, after = count + len(stored), (page[-1].place, page[-1].number)
    return count


async def _insist(acked_publisher: AckedPublisher, row: OutgoingRow) -> PublishAcks | NotPublished:
    """Publish until the broker answers: what it refuses must not keep the agent from its other work."""
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
