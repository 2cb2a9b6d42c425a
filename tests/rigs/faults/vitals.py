"""What a soak looks at: memory, descriptors, tasks and threads of the router, from outside and by
its own metrics; of the server, too.
"""

import asyncio
import os
from pathlib import Path

from msgspec import Struct, field
from prometheus_client.parser import text_string_to_metric_families

from tests.rigs.faults.server_memory import read_heap
from tests.rigs.faults.stage import WRITE_DEADLINE_S, Stage
from tests.support.broker import Broker
from tests.support.ports import free_port
from tests.support.stories import read_page

MIB = 1024 * 1024

# What may not grow: by how much an hour it still counts as flat.
ALLOWED = {
    "router resident, MiB": 4.0,
    "router descriptors": 2.0,
    "router tasks": 2.0,
    "router threads": 2.0,
}
# Tasks come and go with messages in flight, a descriptor with each scrape; a leak lifts the least
# of each minute. Else the mean counts.
LEVEL = {"router tasks": min, "router descriptors": min}
# What is told besides. The server keeps an entry for each key of a bucket and each remembered id,
# so it grows with what it stores (`server_memory` weighs them).
BESIDE = (
    "server resident, MiB",
    "server heap, MiB",
    "server descriptors",
    "collections, oldest generation",
)


class ProfiledStage(Stage):
    """Its server tells its heap."""

    profile_port = 0

    async def start_servers(self) -> None:
        self.profile_port = free_port()
        self.broker = Broker(
            f'write_deadline: "{WRITE_DEADLINE_S}s"', f"prof_port: {self.profile_port}"
        )
        await asyncio.to_thread(self.broker.start)


class Sample(Struct):
    """One moment: seconds since the start, and a value of each series."""

    at: float
    values: dict[str, float] = field(default_factory=dict)


async def looked(stage: ProfiledStage, http: str) -> dict[str, float]:
    """The value of each series, now. `http`: where the router's pages are."""
    _, text = await read_page(http, "/metrics")
    found = {
        (sample.name, sample.labels.get("generation", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    heap = await asyncio.to_thread(read_heap, stage.profile_port)
    router, server = stage.routers[0].pid, stage.broker.pid
    return {
        "router resident, MiB": _resident(router),
        "router descriptors": _descriptors(router),
        "router tasks": found["router_asyncio_tasks", ""],
        "router threads": float(len(os.listdir(f"/proc/{router}/task"))),
        "server resident, MiB": _resident(server),
        # the next collection is due at twice of what the last one left
        "server heap, MiB": heap["NextGC"] / 2 / MIB,
        "server descriptors": _descriptors(server),
        "collections, oldest generation": found["router_gc_collections_total", "2"],
    }


def _resident(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def _descriptors(pid: int) -> float:
    return float(len(os.listdir(f"/proc/{pid}/fd")))
