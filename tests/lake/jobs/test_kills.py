"""The driver dies, or the broker: afterwards the tables are the truth, nothing lost, nothing twice."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from router.delivery.api import JetStream
from router.delivery.connection import connect
from router.lake.generate import Load, Plan, Truth, fill
from router.lake.generate.plan import Kind
from router.lake.warehouse import Warehouse
from tests.support.broker import Broker
from tests.support.waiting import until

EVENTS, BATCH = 3_000, 1_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker().start()
    yield made
    made.remove()


async def filled(broker: Broker) -> Truth:
    load = Load(Plan(events=EVENTS, tenants=3))
    connection = await connect({"servers": [broker.url]})
    jetstream = JetStream(connection)
    subjects = ["beamline.usage.v1.metered"]
    await jetstream.ask("STREAM.CREATE.ROUTER_USAGE", {"name": "ROUTER_USAGE", "subjects": subjects, "allow_direct": True})
    await fill(jetstream, load, "ROUTER_USAGE")
    await connection.close()
    return load.truth


def ingest(broker: Broker, home: Path, crash: str = "") -> subprocess.Popen[bytes]:
    """A process group of its own, so that a kill takes the JVM, too."""
    command = ["-m", "router", "usage", "ingest", "--master", "local[2]", "--max-rows", str(BATCH)]
    where = ["--warehouse", str(home), "--nats-url", broker.url]
    log = (home.parent / "ingest.log").open("ab")
    environment = {**os.environ, "CRASHPOINT": crash}
    return subprocess.Popen([sys.executable, *command, *where], env=environment, stdout=log, stderr=log, start_new_session=True)


def finish(broker: Broker, home: Path) -> None:
    assert ingest(broker, home).wait() == 0, (home.parent / "ingest.log").read_text()[-3000:]


def assert_true(home: Path, truth: Truth) -> None:
    warehouse = Warehouse(str(home))
    counts = {
        table: sum(file.rows for file in warehouse.files(table)) for table in ("bronze", "silver", "duplicates", "conflicts", "quarantine")
    }
    assert counts == {
        "bronze": EVENTS,
        "silver": truth.accepted,
        "duplicates": truth.counts[Kind.DUPLICATE],
        "conflicts": truth.counts[Kind.CONFLICT],
        "quarantine": truth.counts[Kind.MALFORMED],
    }
    for table in ("silver", "gold_minute", "gold_day"):
        costs = [cost for path in warehouse.paths(table) for cost in pq.ParquetFile(path).read(["cost"])["cost"].to_pylist()]
        assert sum(costs).scaleb(9) == truth.nanos
    ids = [one for path in warehouse.paths("silver") for one in pq.ParquetFile(path).read(["event_id"])["event_id"].to_pylist()]
    assert len(set(ids)) == len(ids)


POINTS = ["lake_after_read", "lake_after_write", "lake_after_commit", "lake_before_checkpoint"]


@pytest.mark.slow  # two drivers and their JVMs, one after the other
@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", [pytest.param(name, marks=[] if name == "lake_after_commit" else pytest.mark.matrix) for name in POINTS])
async def test_a_driver_killed_at_a_named_point_leaves_tables_that_the_next_one_completes(
    broker: Broker, tmp_path: Path, point: str
) -> None:
    truth, home = await filled(broker), tmp_path / "warehouse"
    assert ingest(broker, home, f"{point}:2").wait() != 0
    finish(broker, home)
    assert_true(home, truth)


@pytest.mark.matrix
@pytest.mark.timeout(1200)
async def test_a_driver_killed_twenty_times_at_random(broker: Broker, tmp_path: Path) -> None:
    truth, home, draw = await filled(broker), tmp_path / "warehouse", random.Random(5)
    for _ in range(20):
        process = ingest(broker, home)
        try:
            process.wait(draw.uniform(3, 20))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finish(broker, home)
    assert_true(home, truth)


@pytest.mark.matrix
@pytest.mark.slow  # two drivers and their JVMs, one after the other
@pytest.mark.timeout(400)
async def test_the_broker_killed_and_restarted_during_ingest(broker: Broker, tmp_path: Path) -> None:
    truth, home = await filled(broker), tmp_path / "warehouse"
    process = ingest(broker, home)
    await until(lambda: Warehouse(str(home)).head(), within_s=120, what="the first commit")
    broker.kill()
    await asyncio.sleep(1)  # long enough that a read fails
    broker.start()
    process.wait()  # it went on, or it ended: the next one completes it
    finish(broker, home)
    assert_true(home, truth)
