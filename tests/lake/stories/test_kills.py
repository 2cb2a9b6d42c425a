"""The driver is killed, or the broker: afterwards the tables are the truth, nothing lost, nothing twice.

Each life costs the start of a JVM, so this is for `make matrix`; `test_cut_short` ends batches at the same points within one.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.broker import Broker
from tests.support.kills import KILLED, publish
from tests.support.lake_kills import POINTS, Driver, Row, counted, filled, ingested, table

EVENTS, BATCH = 3_000, 1_000
MANY, SMALL = 150_000, 500  # so that every life has something to do: on a quiet machine ten of them take 40 000
KILLS, MOST_S = 20, 8.0  # at random; up to so many seconds after a life began to write
BROKER_KILLS = 5
TITLE = "Tables are the truth, whatever dies when"
NOTE = """`wrong` counts lines of the report that are not the generator's truth (counts, exact costs, latency sums, percentiles within 1 %)
and checks of `router usage reconcile` that differ. Lives: `router usage ingest --master 'local[2]'`, its process group killed
by SIGKILL; the broker: nats-server, killed by SIGKILL and started again on its store while a driver reads."""


@pytest.mark.matrix
@pytest.mark.slow  # twenty-five drivers and their JVMs
@pytest.mark.timeout(3_000)
def test_drivers_killed_everywhere_and_the_broker_too(spark: SparkSession, tmp_path: Path) -> None:
    """UL-25: The whole table; it is kept in bench/results."""
    rows = [_alone(_killed_at, spark, tmp_path, point) for point in POINTS]
    rows += [_alone(_killed_at_random, spark, tmp_path), _alone(_broker_killed, spark, tmp_path)]
    publish("kill_lake", TITLE, table(rows), NOTE)
    assert all(row.is_exact for row in rows), rows


def _alone(story: Callable[..., Row], spark: SparkSession, home: Path, *more: str) -> Row:
    """On a broker of its own."""
    broker = Broker().start()
    try:
        place = home / "-".join((story.__name__, *more))
        place.mkdir()
        row = story(broker, spark, place, *more)
        print(row, flush=True)
        return row
    finally:
        broker.remove()


def _killed_at(broker: Broker, spark: SparkSession, home: Path, point: str) -> Row:
    truth, place = filled(broker, EVENTS), home / "warehouse"
    with Driver(broker, place, BATCH) as driver:
        assert driver.start(f"{point}:2").wait() == KILLED, driver.said
    ingested(spark, broker, place)
    return counted(f"driver, {point}", 1, place, truth, EVENTS)


def _killed_at_random(broker: Broker, spark: SparkSession, home: Path) -> Row:
    truth, place, draw = filled(broker, MANY), home / "warehouse", random.Random(5)
    with Driver(broker, place, SMALL) as driver:
        for _ in range(KILLS):
            driver.start().writes()
            assert driver.wait(draw.uniform(0, MOST_S)) is None, driver.said
            driver.kill()
    ingested(spark, broker, place)
    return counted("driver, at random", KILLS, place, truth, MANY)


def _broker_killed(broker: Broker, spark: SparkSession, home: Path) -> Row:
    truth, place = filled(broker, EVENTS), home / "warehouse"
    with Driver(broker, place, SMALL) as driver:
        driver.start()
        for _ in range(BROKER_KILLS):
            if driver.is_over:  # it gave up: another one goes on
                driver.start()
            driver.writes()
            broker.kill()
            broker.start()
        driver.wait()
    ingested(spark, broker, place)
    return counted("broker, while a batch is read", BROKER_KILLS, place, truth, EVENTS)
