"""Writers of a warehouse are killed between their commits, or the bucket's server is: lost, double,
or other sums than the events'?

A writer is the lake's own code without a JVM (`tests.lake.races.writer`), so a life costs little.
`lake` kills whole drivers.
"""

import asyncio
import random
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from time import monotonic

from router.lake.files import read_columns
from router.lake.warehouse import Warehouse
from tests.lake.races.count import RaceCount, count_races
from tests.lake.races.writer import Writer
from tests.support.kills import KillCount, KillPlan
from tests.support.s3 import Fault, S3Server, an_s3_server

Environment = Mapping[str, str]
KillMany = Callable[[KillPlan, S3Server], KillCount]

STEP = 2  # messages of a batch
LIFE_S = 0.3  # as long as a share takes, at least


async def count_on_disk(plan: KillPlan) -> list[KillCount]:
    return [await asyncio.to_thread(_kill_writers, plan, None)]


async def count_in_bucket(plan: KillPlan) -> list[KillCount]:
    return [await asyncio.to_thread(_in_bucket, plan, _kill_writers)]


async def count_after_server(plan: KillPlan) -> list[KillCount]:
    """The points are `before TABLE` and `after TABLE`: a commit of this table is about to be
    stored, or is, and is not answered.
    """
    return [await asyncio.to_thread(_in_bucket, plan, _kill_server)]


def _in_bucket(plan: KillPlan, kill: KillMany) -> KillCount:
    with an_s3_server() as server:
        return kill(plan, server)


def _kill_writers(plan: KillPlan, server: S3Server | None) -> KillCount:
    draw = random.Random(5)
    with ExitStack() as stack:
        home = _locate(stack, server)
        environment = {} if server is None else server.environment
        longest = LIFE_S
        for life, point in enumerate(plan.ends):
            with Writer(home, environment) as writer:
                began = monotonic()
                writer.ingest(0, (life + 1) * plan.share, STEP, die_at=point or "never").go()
                if point is None:
                    writer.ends_within(draw.uniform(0, longest))
                    writer.kill()
                else:
                    assert writer.wait() == "killed", point
                    longest = max(longest, monotonic() - began)
        return _complete(plan, home, environment)


def _kill_server(plan: KillPlan, server: S3Server) -> KillCount:
    draw = random.Random(5)
    home = server.locate("kills")
    for life, point in enumerate(plan.ends):
        with Writer(home, server.environment) as writer:
            writer.ingest(0, (life + 1) * plan.share, STEP)
            if point is not None:
                when, table = point.split()
                server.arm(
                    Fault(
                        part=f"/{table}/_delta_log/",
                        what="die_before" if when == "before" else "die_after",
                    )
                )
            writer.go()
            if point is None:
                writer.ends_within(draw.uniform(0, LIFE_S * 3))
            else:
                server.wait()
            server.kill()
            writer.kill()  # what it would do is to fail: an ingest does not outlive its bucket
        server.start()
    return _complete(plan, home, server.environment)


def _complete(plan: KillPlan, home: str, environment: Environment) -> KillCount:
    """One more life, to the end; then the count."""
    with Writer(home, environment) as writer:
        writer.ingest(0, plan.messages, STEP).go()
        writer.wait()
    warehouse = Warehouse(home)
    found: RaceCount = count_races(warehouse, {0: range(1, plan.messages + 1)})[0]
    events = len(read_columns(warehouse, "silver", warehouse.files("silver"), ["seq"]))
    return KillCount(
        str(plan),
        len(plan.ends),
        plan.messages,
        events,
        found.lost,
        found.double,
        {"wrong": found.wrong},
    )


def _locate(stack: ExitStack, server: S3Server | None) -> str:
    return (
        stack.enter_context(tempfile.TemporaryDirectory(prefix="router-test-"))
        if server is None
        else server.locate("kills")
    )
