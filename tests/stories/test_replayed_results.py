"""A result that failed and is replayed later is metered at the time of its first storing, however
often it was replayed.
"""

import nats.js.api
from nats.aio.client import Client

from router.config import Settings
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.operate.dead_letters import read_by_filter, replay
from tests.support.router_streams import (
    a_result,
    publish_result,
    read_usage,
    results_are_settled,
    store_assignment,
)
from tests.support.service import a_router
from tests.support.stories import read_dead_letters
from tests.support.waiting import until


async def test_a_result_without_a_time_is_metered_at_its_first_storing(
    nc: Client, settings: Settings, nats_url: str
) -> None:
    """It lacks its job, which only its assignment can fill; the first replay comes before the
    assignment, the second after it.
    """
    async with a_router(settings):
        await publish_result(
            nc, settings, a_result("late", timestamp=None, job=None, provider_id=None)
        )
        await _fails(nc, settings)
        await _replay(nats_url, settings)
        await _fails(nc, settings)
        await store_assignment(nc, settings, "late")
        await _replay(nats_url, settings)
        await until(lambda: results_are_settled(nc, settings))
        (event,) = await read_usage(nc, settings)
    first, *_, last = [await _stored_ms(nc, settings, sequence) for sequence in (1, 2, 3)]
    assert first < last
    assert event["timestamp"] == first


async def _fails(nc: Client, settings: Settings) -> None:
    async def has_failed() -> bool:
        return (
            await results_are_settled(nc, settings)
            and len(await read_dead_letters(nc, settings)) == 1
        )

    await until(has_failed)


async def _replay(nats_url: str, settings: Settings) -> None:
    connection = await connect({"servers": [nats_url]})
    jetstream, stream = JetStream(connection), settings.streams.dlq.name
    report = await replay(jetstream, stream, read_by_filter(jetstream, stream))
    assert (report.sent, report.kept) == (1, [])
    await connection.close()


async def _stored_ms(nc: Client, settings: Settings, sequence: int) -> int:
    config = nats.js.api.ConsumerConfig(
        deliver_policy=nats.js.api.DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=sequence,
        ack_policy=nats.js.api.AckPolicy.NONE,
    )
    told = await nc.jetstream().subscribe(
        settings.results.subject, stream=settings.streams.results.name, config=config
    )
    message = await told.next_msg(timeout=60)
    await told.unsubscribe()
    return int(message.metadata.timestamp.timestamp() * 1000)
