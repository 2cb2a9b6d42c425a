"""A consumer of the bus is killed between an event's delivery and its ack: how many effects does
the event have?
"""

import asyncio
import tempfile
from pathlib import Path

from tests.support.bus import a_bus, an_envelope, read_bus_stream, wait_until_settled
from tests.support.bus_projector import Projector, effects
from tests.support.kills import KillCount, KillPlan, a_server, count_ids, kill_and_restart


async def count_effects(plan: KillPlan) -> list[KillCount]:
    return await _count(plan, is_literal=False)


async def count_effects_beside_the_mark(plan: KillPlan) -> list[KillCount]:
    """The control: the effect and the mark are two transactions."""
    return await _count(plan, is_literal=True)


async def _count(plan: KillPlan, *, is_literal: bool) -> list[KillCount]:
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "projector.db"
        async with a_server() as (url, _), a_bus(url, "sr", consumer_prefix="sr-consumer") as bus:
            projector = Projector(url, file, is_literal=is_literal)

            async def publish(share: range) -> None:
                await asyncio.gather(
                    *(bus.publisher.event(an_envelope(number)) for number in share)
                )

            try:
                await kill_and_restart(projector, plan, publish)
                await wait_until_settled(bus)
            finally:
                projector.remove()
            sent = [f"evt_{number}" for number in range(plan.messages)]
            return [
                count_ids(
                    plan,
                    sent,
                    effects(file),
                    {"dead letters": len(await read_bus_stream(bus, "dlq"))},
                )
            ]
