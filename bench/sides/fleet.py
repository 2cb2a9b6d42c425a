"""The router as `router serve --processes` runs it: a parent and so many processes. What all of
them did is asked of the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator

from msgspec import Struct

from bench.broker import POLICIES, jetstream_on, settings
from bench.child import Ready
from bench.family import member, used
from bench.question import Measured
from router.config import Settings
from router.delivery.wire.api import JetStream
from router.process.observability import configure
from router.serve.fleet import Fleet

# left out: the asking process ends with the last ack, and its processor time can no longer be read
TAIL = 512
LOOK_S = 0.02  # a look costs the server about 0.1 ms
# by what stands in their command lines
PARTIES = {"server_cpu_us": "nats-server", "generator_cpu_us": "bench.sides.asker"}


class Look(Struct, frozen=True):
    """One moment. `cpu`: seconds so far, of the workers and their parent, and of the others on this
    machine.
    """

    done: int
    wall: float
    cpu: dict[str, float]


async def decide(ready: Ready, *, url: str, workers: int, first: int, last: int) -> Measured:
    """Serve with `workers` processes, from acknowledged request `first` to nearly `last`."""
    async with _a_fleet(url, int(workers), ready), jetstream_on(url) as jetstream:
        begin = await _reaches(jetstream, first)
        end = await _reaches(jetstream, last - TAIL)
        peak_mib = used(os.getpid()).peak_mib  # of parent and workers, while they are there
    count = end.done - begin.done
    spent = {name: (end.cpu[name] - begin.cpu[name]) / count * 1e6 for name in end.cpu}
    return {"rate": count / (end.wall - begin.wall), "peak_mib": peak_mib, **spent}


@contextlib.asynccontextmanager
async def _a_fleet(url: str, workers: int, ready: Ready) -> AsyncIterator[None]:
    """Drained afterwards. If it ends by itself, so do we."""
    configure("warning")

    def read() -> Settings:
        base = settings(url)
        policies = base.policies.model_copy(update={"dir": POLICIES})
        log = base.log.model_copy(update={"level": "warning"})
        return base.model_copy(update={"processes": workers, "policies": policies, "log": log})

    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(Fleet(read, lambda nats_url, http: ready(http=http)).run())
        yield
        serving.cancel()


async def _reaches(jetstream: JetStream, target: int) -> Look:
    config = settings(str(jetstream.connection.servers[0].geturl()))
    while True:
        info = await jetstream.consumer(config.streams.decide.name, config.decide.durable) or {}
        if (done := info["delivered"]["consumer_seq"] - info["num_ack_pending"]) >= target:
            return Look(done, time.perf_counter(), _cpu())
        await asyncio.sleep(LOOK_S)


def _cpu() -> dict[str, float]:
    others = {name: member(os.getppid(), command) for name, command in PARTIES.items()}
    return {
        "cpu_us": used(os.getpid()).cpu_s,
        **{name: used(pid).cpu_s if pid else 0.0 for name, pid in others.items()},
    }
