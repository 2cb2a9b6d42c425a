"""Agents' dead letters are sent back to a work queue, which removes what is consumed: a killed
replay blocks no later one.
"""

from pathlib import Path
from typing import Any

from router.agents.topology import AgentTopology
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import Topology, create
from tests.support.agents import a_command, an_agent, count_applied, is_empty
from tests.support.broker import Broker
from tests.support.counting_agent import SUBJECT
from tests.support.dead_letters import a_dead_letter, a_failed_message
from tests.support.delivery import connected
from tests.support.replays import kill_replay, replay
from tests.support.waiting import until

AGENTS = ("--of", "agents")
QUICK = AgentTopology(duplicate_window=0.1)


async def store_letters(jetstream: JetStream, *keys: str) -> None:
    for key in keys:
        failed = a_failed_message(a_command(key), subject=SUBJECT, stream=QUICK.commands)
        await jetstream.publish(f"meshforge.failed.{SUBJECT}", a_dead_letter(failed).data, {})


async def count_letters(jetstream: JetStream) -> int:
    info: Any = await jetstream.stream(QUICK.failed)
    return int(info["state"]["messages"])


async def test_a_killed_replay_is_finished_while_its_commands_wait_in_their_queue(
    broker: Broker,
) -> None:
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        await create(jetstream, Topology(QUICK.streams()))
        await store_letters(jetstream, "k-1", "k-2", "k-3")
        # its messages are sent, their dead letters still there
        await kill_replay(broker.url, "replay_proven", *AGENTS)
        again = await replay(broker.url, *AGENTS, "--json")
        assert (again.status, await count_letters(jetstream)) == (0, 0), again.err
        assert (again.json["finished"], again.json["sent"]) == (3, 0)


async def test_what_a_killed_replay_sent_and_an_agent_took_cannot_be_proven_and_blocks_no_later_replay(
    broker: Broker, tmp_path: Path
) -> None:
    """The agent knows the commands that are sent once more by their keys."""
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        await create(jetstream, Topology(QUICK.streams()))
        await store_letters(jetstream, "k-1", "k-2")
        await kill_replay(broker.url, "replay_proven", *AGENTS)
        async with an_agent(
            broker.url, tmp_path / "witness.db", duplicate_window=QUICK.duplicate_window
        ):
            await until(lambda: is_empty(jetstream))
            refused, kept = await replay(broker.url, *AGENTS), await count_letters(jetstream)
            forgetful = await replay(broker.url, *AGENTS, "--forget-interrupted")
            await store_letters(jetstream, "k-3")
            later = await replay(broker.url, *AGENTS)
            await until(lambda: is_empty(jetstream))
        assert (
            "may be gone: 2 of the 2 messages above 0 are gone" in refused.err,
            refused.status,
            kept,
        ) == (True, 1, 2), refused.err
        assert (forgetful.status, later.status, await count_letters(jetstream)) == (0, 0, 0), (
            forgetful.err + later.err
        )
    assert count_applied(tmp_path / "witness.db") == {"k-1": 1, "k-2": 1, "k-3": 1}
