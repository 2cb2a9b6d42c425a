"""An agent is killed between a message's delivery and its ack: how often do its effects happen?

Local effects are counted in the agent's state, outgoing messages in their stream, each by the id of
its input.
"""

import asyncio
import shutil

from router.delivery.wire.api import JetStream
from tests.support.agents import (
    AgentProcess,
    count_applied,
    count_unsent,
    is_empty,
    publish_commands,
    read_sent,
)
from tests.support.delivery import connected
from tests.support.kills import KillCount, KillPlan, a_server, count_ids, kill_and_restart
from tests.support.waiting import until

# a message in flight at five deaths is given up by default, and ten are in store for it
MAX_DELIVER = 20


class LiteralAgent(AgentProcess):
    command = ("tests.support.literal_agent",)


class BatchingAgent(AgentProcess):
    command = ("tests.support.batching_process", "tests.support.counting_agent")


async def count_effects_in_batches(plan: KillPlan) -> list[KillCount]:
    """Outgoing messages go in atomic batches."""
    return await _count(plan, BatchingAgent)


async def count_effects(plan: KillPlan) -> list[KillCount]:
    return await _count(plan, AgentProcess)


async def count_effects_of_literal_order(plan: KillPlan) -> list[KillCount]:
    """The control: the specification's literal order, persist and apply in two transactions."""
    return await _count(plan, LiteralAgent)


async def _count(plan: KillPlan, process: type[AgentProcess]) -> list[KillCount]:
    async with a_server() as (url, nc), connected(url) as connection:
        jetstream, agent = JetStream(connection), process(url, MAX_DELIVER)
        try:
            await kill_and_restart(agent, plan, lambda share: publish_commands(nc, share))
            await until(lambda: is_empty(jetstream), within_s=60)
            if process is not LiteralAgent:
                await until(lambda: count_unsent(agent.store) == 0)
        finally:
            await asyncio.to_thread(agent.remove)
        local, outgoing = (
            count_applied(agent.store).elements(),
            [str(one["payload"]["key"]) for one in await read_sent(jetstream)],
        )
        failed = await jetstream.stream("MESHFORGE_FAILED")
        wrong = {"dead letters": failed["state"]["messages"] if failed is not None else 0}
        shutil.rmtree(agent.home)
    sent = [f"k-{number}" for number in range(plan.messages)]
    kinds = (("local effects", local), ("outgoing messages", outgoing))
    return [
        count_ids(plan, sent, found, wrong)._replace(killed=f"{plan}: {kind}")
        for kind, found in kinds
    ]
