"""What a soak looks at: memory, descriptors, tasks and threads of the router, from outside and by
its own metrics; of the server, too.
"""

import os
from pathlib import Path

from msgspec import Struct, field
from prometheus_client.parser import text_string_to_metric_families

from tests.rigs.faults.stage import Stage
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
BESIDE = ("server resident, MiB", "server descriptors", "collections, oldest generation")


class Sample(Struct):
    """One moment: seconds since the start, and a value of each series."""

    at: float
    values: dict[str, float] = field(default_factory=dict)


async def looked(stage: Stage, http: str) -> dict[str, float]:
    """The value of each series, now. `http`: where the router's pages are."""
    _, text = await read_page(http, "/metrics")
    found = {
        (sample.name, sample.labels.get("generation", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    router, server = stage.routers[0].pid, stage.broker.pid
    return {
        "router resident, MiB": _resident(router),
        "router descriptors": _descriptors(router),
        "router tasks": found["router_asyncio_tasks", ""],
        "router threads": float(len(os.listdir(f"/proc/{router}/task"))),
        "server resident, MiB": _resident(server),
        "server descriptors": _descriptors(server),
        "collections, oldest generation": found["router_gc_collections_total", "2"],
    }


def _resident(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def _descriptors(pid: int) -> float:
    return float(len(os.listdir(f"/proc/{pid}/fd")))
