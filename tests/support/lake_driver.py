"""`router usage ingest` as a driver that is killed with its JVM, and a count of what its tables
hold.

The driver is a process group of its own, so that a SIGKILL takes the JVM and its Python workers,
too. In how many lives the stream was read makes no difference to the ledger: it knows the
generator's truth and the files that the log names.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from router.core.clock import now_ms
from router.delivery.wire.api import JetStream
from router.lake.files import read_columns
from router.lake.generate import Load, LoadPlan, Truth, fill
from router.lake.jobs.ingest import IngestJob, start_ingest
from router.lake.reconcile import reconcile
from router.lake.report import DIMENSIONS, UsageQuery, read_report
from router.lake.tables.gold_columns import GOLD_COLUMNS
from router.lake.warehouse import Warehouse
from tests.lake.without_jvm import IN_PROCESS
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.kills import KillCount, KillPlan
from tests.support.patient_client import PATIENCE_S
from tests.support.waiting import until

STREAM = "ROUTER_USAGE"
POINTS = (
    "lake_after_write",
    *(
        f"lake_after_{table}"
        for table in ("bronze", "quarantine", "duplicates", "conflicts", "silver", "gold")
    ),
    "lake_after_commit",
)
EXACT = (*DIMENSIONS, *(column.label for column in GOLD_COLUMNS))
WITHIN_1_PERCENT = ("latency_p50_ms", "latency_p95_ms", "latency_p99_ms")


def fill_usage_stream(broker: Broker, events: int) -> Truth:
    """The usage stream, with some of everything in it: late, double, conflicting and malformed
    events.
    """
    load = Load(
        LoadPlan(events=events, tenants=3, duplicates=0.05, malformed=0.01, until_ms=now_ms())
    )
    asyncio.run(_fill(broker, load))
    return load.truth


async def _fill(broker: Broker, load: Load) -> None:
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection, timeout_s=PATIENCE_S)
        subjects = ["beamline.usage.v1.metered"]
        await jetstream.ask(
            f"STREAM.CREATE.{STREAM}", {"name": STREAM, "subjects": subjects, "allow_direct": True}
        )
        await fill(jetstream, load, STREAM)


class Driver:
    """`router usage ingest`, a life after the other. A context: nothing of it stays behind."""

    def __init__(self, broker: Broker, home: Path, rows: int, master: str = "local[2]") -> None:
        self._arguments = [
            "--warehouse",
            str(home),
            "--nats-url",
            broker.url,
            "--max-rows",
            str(rows),
            "--master",
            master,
        ]
        self._home = home
        self._log = home.parent / "ingest.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._orphaned: list[int] = []  # groups whose JVM may go on without its Python

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for group in self._orphaned:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def start(self, crash: str = "") -> "Driver":
        self.kill()
        command = [sys.executable, "-m", "router.cli", "usage", "ingest", *self._arguments]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "CRASHPOINT": crash},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                # also what a driver that is dead left of its group
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def kill_python(self) -> None:
        """Its JVM lives on, and notices or not, while the next driver begins. It may be dead
        already, at a crash point.
        """
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._orphaned.append(self._process.pid)
            self._process = None

    @property
    def is_over(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def wait(self, most_s: float | None = None) -> int | None:
        """Its exit status; None when it works on."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(most_s)
        return None

    def writes(self, table: str = "bronze") -> None:
        """Return as a micro-batch begins to write into this table, before it commits, or the driver
        is over.
        """
        before = self._list_files(table)
        asyncio.run(
            until(
                lambda: self.is_over or self._list_files(table) - before,
                within_s=300,
                what=f"a micro-batch in {table}",
            )
        )

    @property
    def said(self) -> str:
        return self._log.read_text()[-3000:]

    def _list_files(self, table: str) -> set[Path]:
        return set(self._home.glob(f"{table}/day=*/**/*.parquet"))


def run_ingest(spark: SparkSession, broker: Broker, home: Path, rows: int = 500_000) -> None:
    """What the stream holds now, in this process. Raises what the ingest raises."""
    running = start_ingest(
        spark,
        IngestJob(warehouse=str(home), source={"url": broker.url, "stream": STREAM}, max_rows=rows),
    )
    while not running.wait(1):
        pass


def count_in_tables(plan: KillPlan, home: Path | str, truth: Truth) -> KillCount:
    """Of a stream that is in: messages by sequence, events by identity, sums and percentiles by the
    report.
    """
    warehouse = Warehouse(str(home))
    bronze, silver = (
        Counter(_column(warehouse, "bronze", "seq")),
        Counter(_column(warehouse, "silver", "event_id")),
    )
    lost = len(set(range(1, plan.messages + 1)) - set(bronze)) + max(
        0, truth.accepted - len(silver)
    )
    double = bronze.total() - len(bronze) + silver.total() - len(silver)
    wrong = _unlike(warehouse, truth) + sum(
        check.is_right is False for check in reconcile(IN_PROCESS, warehouse).checks
    )
    return KillCount(
        str(plan), len(plan.ends), plan.messages, len(silver), lost, double, {"wrong": wrong}
    )


def _column(warehouse: Warehouse, table: str, name: str) -> Iterator[object]:
    yield from read_columns(warehouse, table, warehouse.files(table), [name])[name].to_pylist()


def _unlike(warehouse: Warehouse, truth: Truth) -> int:
    """Lines that the truth has not, and the other way round; and percentiles that are off by more
    than 1 %.
    """
    found, wanted = (
        {tuple(str(row[name]) for name in EXACT): row for row in rows}
        for rows in (_reported(warehouse), truth.make_rows())
    )
    off = [
        key
        for key in found.keys() & wanted.keys()
        for name in WITHIN_1_PERCENT
        if _is_off(found[key][name], wanted[key][name])
    ]
    return len(found.keys() ^ wanted.keys()) + len(off)


def _reported(warehouse: Warehouse) -> list[dict[str, object]]:
    return [line.to_json() for line in read_report(warehouse, UsageQuery()).lines]


def _is_off(found: object, wanted: object) -> bool:
    if found is None or wanted is None:
        return found is not wanted
    return abs(float(str(found)) - float(str(wanted))) > 0.010001 * float(str(wanted))
