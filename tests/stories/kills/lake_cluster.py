"""What a standalone Spark cluster runs of an ingest is killed: executors, Python processes of their
tasks, workers.

The driver is left alone. It ends if a task failed four times, and is started again, as a scheduler
would; a worker that was killed is started again, too, and the master starts executors anew.
"""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.stories.kills.lake import SMALL_BATCH, count_after
from tests.support.broker import Broker
from tests.support.kills import KillCount, KillPlan
from tests.support.lake_driver import Driver
from tests.support.spark_cluster import SparkCluster, kill_process

MOST_S = 3.0  # a kill at random comes up to so many seconds after a micro-batch began to write
# a micro-batch begins to write this table, in a task of its first step, or of its second
POINTS = ("bronze", "silver")

# False: there is none now, because one was killed a moment ago
KillOne = Callable[[SparkCluster, random.Random], bool]


async def count_after_executor(plan: KillPlan) -> list[KillCount]:
    return [await asyncio.to_thread(count_after, plan, partial(_kill_many, _kill_executor))]


async def count_after_python(plan: KillPlan) -> list[KillCount]:
    return [await asyncio.to_thread(count_after, plan, partial(_kill_many, _kill_python))]


async def count_after_worker(plan: KillPlan) -> list[KillCount]:
    return [await asyncio.to_thread(count_after, plan, partial(_kill_many, _kill_worker))]


def _kill_many(kill: KillOne, plan: KillPlan, broker: Broker, warehouse: Path) -> None:
    draw = random.Random(5)
    with (
        SparkCluster(warehouse.parent / "cluster") as cluster,
        Driver(broker, warehouse, SMALL_BATCH, cluster.master) as driver,
    ):
        driver.start()
        for table in plan.ends:
            while not _kill_as_it_writes(driver, table, draw, partial(kill, cluster, draw)):
                if driver.is_over:
                    assert driver.wait(), f"all was read before the last kill: {driver.said}"
                    driver.start()
        driver.wait()


def _kill_as_it_writes(
    driver: Driver, table: str | None, draw: random.Random, kill: Callable[[], bool]
) -> bool:
    """Without a table: at random. False: there was nothing to kill."""
    driver.writes(table or POINTS[0])
    if table is None:
        driver.wait(draw.uniform(0, MOST_S))
    return not driver.is_over and kill()


def _kill_executor(cluster: SparkCluster, draw: random.Random) -> bool:
    return _kill_any(cluster.list_executors(), draw)


def _kill_python(cluster: SparkCluster, draw: random.Random) -> bool:
    return _kill_any(cluster.list_pythons(), draw)


def _kill_worker(cluster: SparkCluster, draw: random.Random) -> bool:
    cluster.kill_worker(draw.choice(cluster.workers))
    return True


def _kill_any(pids: list[int], draw: random.Random) -> bool:
    return bool(pids) and kill_process(draw.choice(pids))
