"""Commands for an agent, which counts them in its store and sends a message for each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence

from tests.rigs.faults.child import Child
from tests.rigs.faults.cluster.chains.chain import Effect, Surroundings
from tests.rigs.faults.cluster.groups import Group
from tests.rigs.faults.standing import standing
from tests.support.agents import a_command, count_applied
from tests.support.counting_agent import SUBJECT

COMMANDS, EVENTS = "MESHFORGE_COMMANDS", "MESHFORGE_EVENTS"
AGENT = ("router", "agent", "run", "tests.support.counting_agent:CountingAgent")
QUICK = {"agents.ack_wait_ms": 3000, "agents.sweep_ms": 5000, "agents.max_deliver": 20}


class AgentChain:
    """The agent makes its streams."""

    name = "agents"
    groups = (
        Group(COMMANDS),
        Group(EVENTS),
        Group("MESHFORGE_FAILED"),
        Group(COMMANDS, "witness_consumer"),
    )

    async def start(self, stage: Surroundings) -> list[Child]:
        self._stage = stage
        self._store = stage.home / "witness.db"
        return [
            await stage.add_child(
                "agent", (*AGENT, "--store", str(self._store)), "agent.ready", **QUICK
            )
        ]

    async def open(self) -> None: ...

    async def send(self, number: int) -> str:
        key = f"k-{number}"
        js = self._stage.clients.current.jetstream()
        await js.publish(SUBJECT, a_command(key), headers={"Nats-Msg-Id": key}, timeout=5)
        return key

    async def count(self) -> int:
        return (await asyncio.to_thread(count_applied, self._store)).total()

    async def read(self) -> Mapping[str, Sequence[Effect]]:
        applied = await asyncio.to_thread(count_applied, self._store)
        sent = await standing(self._stage.clients.current, EVENTS)
        sent_at = {str(json.loads(one.data)["payload"]["key"]): one.stored_at for one in sent}
        return {
            # the store keeps no time
            "applied": [Effect(key, sent_at.get(key, 0.0)) for key in applied.elements()],
            "sent": [
                Effect(str(json.loads(one.data)["payload"]["key"]), one.stored_at) for one in sent
            ],
        }

    async def close(self) -> None: ...
