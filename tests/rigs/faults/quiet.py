"""When everything is over: all asked, answered, done, metered and settled, or too long after the
last fault.
"""

import asyncio

import nats.errors
from nats.aio.client import Client

from tests.rigs.faults.load import Load
from tests.rigs.faults.stage import Stage

ALL_QUIET_S = 120.0
WORKERS = "caf-worker"


async def quiesce(stage: Stage, client: Client, load: Load, *, within_s: float) -> bool:
    """Whether nothing is left to do, twice in a row: between two consumers a message is in
    neither's hands.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    times = 0
    while times < 2 and loop.time() < deadline:
        times = times + 1 if load.is_quiet and await _all_settled(stage, client) else 0
        await asyncio.sleep(0.25)
    return times >= 2


async def _all_settled(stage: Stage, client: Client) -> bool:
    settings = stage.settings
    subscriptions = (
        (settings.streams.decide.name, settings.decide.durable),
        (settings.streams.assignments.name, WORKERS),
        (settings.streams.results.name, settings.results.durable),
    )
    jsm = client.jsm()
    try:
        found = [await jsm.consumer_info(*subscription) for subscription in subscriptions]
    except nats.errors.Error:
        return False
    return all((info.num_pending, info.num_ack_pending) == (0, 0) for info in found)
