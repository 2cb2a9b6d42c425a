"""Events of the envelope bus, projected into a SQLite file by a consumer that keeps its keys there.

`python -m tests.rigs.faults.cluster.chains.bus FILE` is the consumer.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from router import Bus
from router.bus.consumer import DEFAULT_OPTIONS, BusAnswer
from router.config import load
from router.contracts.envelope import MessageEnvelope
from tests.rigs.faults.child import Child
from tests.rigs.faults.cluster.chains.chain import Effect, Surroundings
from tests.rigs.faults.cluster.groups import Group
from tests.support.bus import an_envelope

STREAM, NAME = "sr-events", "projector"
OPTIONS = replace(DEFAULT_OPTIONS, ack_wait=3.0, heartbeat=1.0)


class BusChain:
    """The suite publishes by the bus of the SDK, on a connection to all servers."""

    name = "bus"
    groups = (Group(STREAM), Group(STREAM, f"sr-consumer-{NAME}"), Group("sr-dlq"))

    async def start(self, stage: Surroundings) -> list[Child]:
        self._stage = stage
        self._file = stage.home / "projector.db"
        with closing(sqlite3.connect(self._file)) as connection:
            connection.execute("CREATE TABLE effects (id TEXT, at REAL)")
            connection.commit()
        return [
            await stage.add_child(
                "projector",
                ("tests.rigs.faults.cluster.chains.bus", str(self._file)),
                "projector.ready",
            )
        ]

    async def open(self) -> None:
        self._bus = Bus(
            settings=load(None, {"nats.url": self._stage.url, "replicas": 3}, {}).settings
        )
        await self._bus.__aenter__()

    async def send(self, number: int) -> str:
        await self._bus.publisher.event(an_envelope(number))
        return f"evt_{number}"

    async def count(self) -> int:
        return len(await asyncio.to_thread(read_effects, self._file))

    async def read(self) -> Mapping[str, Sequence[Effect]]:
        return {"projected": await asyncio.to_thread(read_effects, self._file)}

    async def close(self) -> None:
        await self._bus.__aexit__()


def read_effects(file: Path) -> list[Effect]:
    with closing(sqlite3.connect(file)) as connection:
        return [Effect(*row) for row in connection.execute("SELECT id, at FROM effects")]


def project(envelope: MessageEnvelope) -> BusAnswer:
    return lambda cursor: cursor.execute(
        "INSERT INTO effects VALUES (?, ?)", (envelope.message_id, time.time())
    )


async def serve(file: str) -> None:
    async with Bus() as bus:
        print(json.dumps({"event": "projector.ready"}), flush=True)
        await bus.consume(NAME, project, store=file, options=OPTIONS)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
