"""MF-5, MF-6, MF-7: killed anywhere between a message's delivery and its acknowledgement, its effects happen once (T1)."""

import asyncio
import shutil
from collections.abc import Iterable

import nats
import pytest

from router.delivery.api import JetStream
from tests.support.agents import AgentProcess, applied_in, is_empty, killed_agent, said, unsent_in
from tests.support.delivery import connected
from tests.support.kills import Plan, Row, a_server, counted, publish, table
from tests.support.waiting import until

POINTS = (
    "agent_received",
    "agent_deduplicated",
    "agent_persisted",
    "agent_applying",
    "agent_applied",
    "before_publish",
    "after_publish",
    "after_commit",
    "after_ack",
)
CONTROL = "control: the specification's literal order"
SHORT = [
    *[Plan(point, at_point=2, at_random=0, share=20) for point in ("agent_persisted", "agent_applied", "after_commit")],
    Plan("batch_open", at_point=2, at_random=0, share=100),
]
LONG = [Plan(point, at_point=6, at_random=4, share=20) for point in POINTS]
IN_A_BATCH = Plan("batch_open", at_point=6, at_random=4, share=100)  # so many that some of them are sent as one
AT_RANDOM = Plan(None, at_point=0, at_random=50, share=20)
LOSING = Plan("agent_persisted", at_point=2, at_random=0, share=20)
NOTE = (
    "Local effects are counted in the agent's state, outgoing messages in their stream, each by the id of its input."
    " Acknowledgements are waited for 500 ms; all other settings are the defaults, five deliveries among them:"
    " what the server gave up between the kills came back through the safety net."
)


class HastyAgent(AgentProcess):
    command = ("tests.support.hasty_agent",)


@pytest.mark.slow  # deaths and restarts of a process
@pytest.mark.parametrize("plan", SHORT, ids=[str(plan.point) for plan in SHORT])
async def test_an_effect_happens_once_wherever_the_agent_is_killed(plan: Plan) -> None:
    """MF-6: at least forty messages, two kills: state and outgoing messages once each."""
    rows = await _story(plan, str(plan.point))
    print(_table(rows))
    assert all(row.is_exact for row in rows), rows


@pytest.mark.slow  # as above
async def test_the_literal_order_loses_an_effect_for_each_crash_between_persist_and_apply() -> None:
    """MF-4: the control."""
    local, outgoing = await _story(LOSING, CONTROL, HastyAgent)
    print(_table([local, outgoing]))
    assert (local.lost, local.double) == (LOSING.at_point, 0)
    assert (outgoing.lost, outgoing.double) == (LOSING.at_point, 0)


@pytest.mark.matrix
@pytest.mark.slow  # 3 840 messages, a hundred kills and more
async def test_at_least_two_hundred_messages_at_every_point_and_fifty_kills_at_random() -> None:
    """MF-7: the whole table; it is kept in bench/results."""
    rows = [row for plan in (*LONG, IN_A_BATCH) for row in await _story(plan, f"{plan.point} 6 ×, at random 4 ×")]
    rows += await _story(AT_RANDOM, "at random, SIGKILL")
    control = await _story(LOSING, CONTROL, HastyAgent)
    print(_table([*rows, *control]))
    publish("kill_agents", "An agent's effects happen once, whatever dies when", _table([*rows, *control]), NOTE)
    assert all(row.is_exact for row in rows), rows
    assert all(row.lost for row in control)


async def _story(plan: Plan, label: str, kind: type[AgentProcess] = AgentProcess) -> list[Row]:
    async with a_server() as (url, _), connected(url) as connection:
        jetstream, agent = JetStream(connection), kind(url)
        nc = await nats.connect(url)
        try:
            await killed_agent(agent, plan, nc)
            await until(lambda: is_empty(jetstream), within_s=60)
            if kind is AgentProcess:
                await until(lambda: unsent_in(agent.store) == 0)
        finally:
            await nc.close()
            await asyncio.to_thread(agent.remove)
        local = applied_in(agent.store)
        sent = [str(one["payload"]["key"]) for one in await said(jetstream)]
        letters = await jetstream.stream("MESHFORGE_FAILED")
        dead = letters["state"]["messages"] if letters is not None else 0
        shutil.rmtree(agent.home)
        return [
            counted(plan, f"{label}: local effects", _keys(plan), local.elements(), dead),
            counted(plan, f"{label}: outgoing messages", _keys(plan), sent, dead),
        ]


def _keys(plan: Plan) -> Iterable[str]:
    return [f"k-{number}" for number in range(plan.messages)]


def _table(rows: list[Row]) -> str:
    return table(rows, "messages", "effects")
