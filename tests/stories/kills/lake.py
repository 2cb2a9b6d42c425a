"""The driver of an ingest is killed, or the broker: what of the stream is lost in the tables,
double, or not the truth?

Each life costs the start of a JVM; `tests/lake/stories/test_cut_short.py` ends batches at the same
points within one.
"""

import asyncio
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from router.lake.generate import Truth
from router.lake.session import create_session
from tests.support.broker import Broker
from tests.support.kills import KILLED, KillCount, KillPlan
from tests.support.lake_driver import Driver, count_in_tables, fill_usage_stream, run_ingest

MOST_S = 8.0  # a driver is killed at random up to so many seconds after it began to write
BATCH, SMALL_BATCH = 1_000, 500

KillDriver = Callable[[KillPlan, Broker, Path], None]


async def count_after_driver(plan: KillPlan) -> list[KillCount]:
    return [await asyncio.to_thread(count_after, plan, _kill_driver)]


async def count_after_python(plan: KillPlan) -> list[KillCount]:
    return [await asyncio.to_thread(count_after, plan, _kill_python)]


async def count_after_broker(plan: KillPlan) -> list[KillCount]:
    return [await asyncio.to_thread(count_after, plan, _kill_broker)]


def count_after(plan: KillPlan, kill: KillDriver) -> KillCount:
    """Kill an ingest of a stream as `kill` does, then ingest what is left, and count."""
    with Broker() as broker, tempfile.TemporaryDirectory() as home:
        warehouse = Path(home) / "warehouse"
        truth: Truth = fill_usage_stream(broker, plan.messages)
        kill(plan, broker, warehouse)
        run_ingest(_spark(), broker, warehouse)
        return count_in_tables(plan, warehouse, truth)


def _kill_driver(plan: KillPlan, broker: Broker, warehouse: Path) -> None:
    draw = random.Random(5)
    with Driver(broker, warehouse, BATCH if plan.points else SMALL_BATCH) as driver:
        for point in plan.ends:
            if point is not None:
                assert driver.start(f"{point}:2").wait() == KILLED, driver.said
                continue
            driver.start().writes()
            assert driver.wait(draw.uniform(0, MOST_S)) is None, driver.said
            driver.kill()


def _kill_python(plan: KillPlan, broker: Broker, warehouse: Path) -> None:
    """The driver's Python alone: its JVM is left to find that out."""
    draw = random.Random(5)
    with Driver(broker, warehouse, BATCH if plan.points else SMALL_BATCH) as driver:
        for point in plan.ends:
            if point is not None:
                assert driver.start(f"{point}:2").wait() == KILLED, driver.said
            else:
                driver.start().writes()
                assert driver.wait(draw.uniform(0, MOST_S)) is None, driver.said
            driver.kill_python()


def _kill_broker(plan: KillPlan, broker: Broker, warehouse: Path) -> None:
    """While a batch is read; the broker comes back on its store."""
    with Driver(broker, warehouse, SMALL_BATCH) as driver:
        driver.start()
        for _ in plan.ends:
            if driver.is_over:  # it gave up: another one goes on
                driver.start()
            driver.writes()
            broker.kill()
            broker.start()
        driver.wait()


def _spark() -> SparkSession:
    # it ends before it has warmed up
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    return create_session("local[2]")
