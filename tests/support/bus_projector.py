"""A consumer of the bus in a process of its own, to be killed.

`python -m tests.support.bus_projector`; its settings come from the environment.

It writes one row for each event into the SQLite file PROJECTOR_DB: together with the key (default),
or, as the control, in a transaction of its own before the key is marked (PROJECTOR_ORDER=beside),
which is the specification's order taken literally.
"""

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from router import Bus
from router.bus import BusHandler
from router.bus.consumer import BusAnswer
from router.contracts.envelope import MessageEnvelope
from tests.support.bus import MORTAL
from tests.support.kills import KilledProcess

NAME = "projector"
INSERT = "INSERT INTO effects VALUES (?)"


class Projector(KilledProcess):
    """Its supervisor. `is_literal`: the control."""

    command = ("tests.support.bus_projector",)

    def __init__(self, url: str, file: Path, *, is_literal: bool = False) -> None:
        super().__init__({"nats.url": url})
        self._environ |= {
            "PROJECTOR_DB": str(file),
            "PROJECTOR_ORDER": "beside" if is_literal else "together",
        }
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE effects (id TEXT)")
            connection.commit()


def effects(file: Path) -> list[str]:
    """The ids of all rows, double ones as often as they are there."""
    with closing(sqlite3.connect(file)) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM effects")]


def together(_: str) -> BusHandler:
    def project(envelope: MessageEnvelope) -> BusAnswer:
        return lambda cursor: cursor.execute(INSERT, (envelope.message_id,))

    return project


def beside(file: str) -> BusHandler:
    connection = sqlite3.connect(file, timeout=10)

    def project(envelope: MessageEnvelope) -> None:
        connection.execute(INSERT, (envelope.message_id,))
        connection.commit()

    return project


ORDERS: dict[str, Callable[[str], BusHandler]] = {"together": together, "beside": beside}


async def serve() -> None:
    file = os.environ["PROJECTOR_DB"]
    async with Bus() as bus:
        print(json.dumps({"event": "router.ready"}), flush=True)
        # The control keeps its keys in another file, so that its rows and its keys cannot be one
        # transaction.
        keys = file if os.environ["PROJECTOR_ORDER"] == "together" else f"{file}.keys"
        await bus.consume(
            NAME, ORDERS[os.environ["PROJECTOR_ORDER"]](file), store=keys, options=MORTAL
        )


if __name__ == "__main__":
    asyncio.run(serve())
