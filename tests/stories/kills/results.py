"""A router is killed between a result's delivery and its ack: how often is each result metered?"""

import asyncio

from nats.aio.client import Client

from router.config import Settings
from tests.support.kills import (
    KillCount,
    KilledProcess,
    KillPlan,
    a_server,
    count_ids,
    kill_and_restart,
)
from tests.support.router_streams import (
    a_result,
    headers_of,
    publish_result,
    read_usage,
    results_are_settled,
)
from tests.support.service import names_for, settings_for
from tests.support.stories import has_messages, make_topology, read_dead_letters
from tests.support.waiting import until

ACK_WAIT_MS = 500


class AckFirstConsumer(KilledProcess):
    command = ("tests.support.ack_first_consumer",)


class BatchingRouter(KilledProcess):
    command = ("tests.support.batching_process", "router", "serve")


async def count_metered_in_batches(plan: KillPlan) -> list[KillCount]:
    """Usage events go in atomic batches."""
    return await _count(plan, BatchingRouter)


async def count_metered(plan: KillPlan) -> list[KillCount]:
    return await _count(plan, KilledProcess)


async def count_metered_after_ack(plan: KillPlan) -> list[KillCount]:
    """The control: a consumer that acks a result before its usage event is stored."""
    return await _count(plan, AckFirstConsumer)


async def _count(plan: KillPlan, process: type[KilledProcess]) -> list[KillCount]:
    async with a_server() as (url, nc):
        settings = settings_for(url, results__ack_wait_ms=ACK_WAIT_MS)
        await make_topology(settings)
        router = process({**names_for(url, "t"), "results.ack_wait_ms": ACK_WAIT_MS})
        try:
            await kill_and_restart(router, plan, lambda share: _publish(nc, settings, share))
            await until(lambda: results_are_settled(nc, settings), within_s=30)
            if process is AckFirstConsumer:  # it does not wait for its last event to be stored
                await until(
                    lambda: has_messages(
                        nc, settings.streams.usage.name, plan.messages - len(plan.ends)
                    )
                )
        finally:
            router.remove()
        metered = [str(event["assignment_id"]) for event in await read_usage(nc, settings)]
        sent = [f"a-{number}" for number in range(plan.messages)]
        return [
            count_ids(
                plan, sent, metered, {"dead letters": len(await read_dead_letters(nc, settings))}
            )
        ]


async def _publish(nc: Client, settings: Settings, share: range) -> None:
    await asyncio.gather(
        *(publish_result(nc, settings, a_result(number), headers_of(number)) for number in share)
    )
