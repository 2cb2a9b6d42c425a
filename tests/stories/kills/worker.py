"""A worker of the SDK is killed between an assignment's delivery and its ack: how many results does
the assignment have?
"""

import asyncio
import json

import orjson
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from router.config import Settings
from router.sdk.worker import DURABLE
from tests.support.killed_worker import KilledWorker
from tests.support.kills import KillCount, KillPlan, a_server, count_ids, kill_and_restart
from tests.support.router_streams import read_stream
from tests.support.sdk import a_body
from tests.support.service import names_for, settings_for
from tests.support.stories import has_acked_all, make_topology, read_dead_letters
from tests.support.waiting import until


class BatchingWorker(KilledWorker):
    command = ("tests.support.batching_process", "tests.support.killed_worker")


async def count_results_in_batches(plan: KillPlan) -> list[KillCount]:
    """Results go in atomic batches."""
    return await _count(plan, BatchingWorker)


async def count_results(plan: KillPlan) -> list[KillCount]:
    return await _count(plan, KilledWorker)


async def _count(plan: KillPlan, process: type[KilledWorker]) -> list[KillCount]:
    async with a_server() as (url, nc):
        settings = settings_for(url)
        await make_topology(settings)
        worker = process(names_for(url, "t"))
        try:
            await kill_and_restart(worker, plan, lambda share: _publish(nc, settings, share))
            await until(lambda: _are_settled(nc, settings), within_s=30)
        finally:
            worker.remove()
        found = [
            json.loads(data)["assignment_id"]
            for _, data, _ in await read_stream(nc, settings.streams.results.name)
        ]
        sent = [f"a-{number}" for number in range(plan.messages)]
        return [
            count_ids(
                plan, sent, found, {"dead letters": len(await read_dead_letters(nc, settings))}
            )
        ]


async def _publish(nc: Client, settings: Settings, share: range) -> None:
    jetstream, subject = nc.jetstream(), settings.assignment.subjects[0]
    bodies = (a_body(f"a-{number}") for number in share)
    await asyncio.gather(
        *(
            jetstream.publish(
                subject, orjson.dumps(body), headers={"Nats-Msg-Id": body["assignment_id"]}
            )
            for body in bodies
        )
    )


async def _are_settled(nc: Client, settings: Settings) -> bool:
    """Every assignment is delivered and acked."""
    stream = settings.streams.assignments.name
    try:
        return await has_acked_all(nc, stream, DURABLE)
    except NotFoundError:
        return False
