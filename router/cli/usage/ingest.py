"""`router usage ingest`: the stream's new messages into the tables, with what happens shown while it happens."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import ends
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import console, grid, print_json, print_lines
from router.cli.session import settings_of
from router.cli.usage.options import WAREHOUSE, Master, WarehouseAt
from router.cli.usage.source import bounds_of, reading, source_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from router.config import Settings
    from router.lake.jobs.ingest import IngestJob, RunningIngest
    from router.lake.warehouse import Commit

LOOK_S = 1
AWAY_S = 5.0  # a broker that answers nothing for so long before anything has begun

Continuous = Annotated[bool, typer.Option("--continuous/--available-now", help="Go on for ever, or end at what is there now.")]
Rows = Annotated[int, typer.Option(metavar="N", help="Messages in a micro-batch, at most: what is held in memory at once.", min=1)]
OnLoss = Annotated[bool, typer.Option("--fail-on-data-loss/--accept-data-loss", help="End where messages are gone, or go on without them.")]


def ingest(
    *,
    continuous: Continuous = False,
    max_rows: Rows = 500_000,
    fail_on_data_loss: OnLoss = True,
    master: Master = None,
    warehouse: WarehouseAt = WAREHOUSE,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Read the usage stream into the warehouse. Each micro-batch counts wholly or not at all, once, whatever dies meanwhile.

    With --continuous and --json, or where nobody watches, each commit is a line of JSON.

    Ctrl-C ends it after the micro-batch that is being written; a second one at once. Neither loses anything.

    Example:  router usage ingest --warehouse usage --nats-url nats://localhost:4222
    """
    with ends.errors_told():
        settings = settings_of(nats_url, config)
        _run(settings, warehouse, master, as_json, continuous=continuous, max_rows=max_rows, fails_on_loss=fail_on_data_loss)


def _run(
    settings: Settings, warehouse: str, master: str | None, as_json: bool, *, continuous: bool, max_rows: int, fails_on_loss: bool
) -> None:
    from router.lake.session import check_spark, create_session

    check_spark()
    stream = settings.streams.usage.name
    _look(settings, stream)
    spark = create_session(master)
    try:
        from router.lake.jobs.ingest import IngestJob

        source = {**source_of(settings.nats, stream), "failOnDataLoss": str(fails_on_loss).lower()}
        job = IngestJob(warehouse=warehouse, source=source, continuous=continuous, max_rows=max_rows, bounds=bounds_of(settings))
        _watch(spark, job, as_json)
    finally:
        spark.stop()


def _look(settings: Settings, stream: str) -> None:
    """Who has no broker, or the wrong one, hears of it before Spark takes its time."""
    from msgspec.structs import replace

    from router.lake.source.broker import read_facts

    read_facts(replace(reading(settings.nats, stream), timeout_s=AWAY_S))


def _watch(spark: SparkSession, job: IngestJob, as_json: bool) -> None:
    from router.lake.jobs.ingest import start_ingest

    shown = Shown(is_quiet=as_json, is_told_each=job.continuous and (as_json or not sys.stderr.isatty()))
    with shown.bar:
        running = start_ingest(spark, job, shown.commit)
        shown.begin(running)
        with _interrupts(shown) as asked:
            while not running.wait(LOOK_S):
                if asked and (shown.commits > asked[0] or not running.is_busy):
                    spark.sparkContext.setLogLevel("OFF")  # of the next batch, which may have begun and is cut short
                    running.stop()
    shown.end(as_json)


@contextmanager
def _interrupts(shown: Shown) -> Iterator[list[int]]:
    """How many commits there were at the first Ctrl-C. Spark's own handler would cancel the batch; ours lets it be written."""
    asked: list[int] = []

    def interrupted(*_: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(shown.commits)
        shown.ending()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


class Shown:
    """What a person sees: rows, rate, what is left; and at the end what came of it.

    `is_told_each`: for whoever collects logs of a query without an end, a line of JSON for each commit.
    """

    def __init__(self, *, is_quiet: bool, is_told_each: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        columns = (SpinnerColumn(), TextColumn("ingesting"), BarColumn(), TextColumn("{task.fields[told]}"))
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=is_quiet or not sys.stderr.isatty())
        self._task = self.bar.add_task("", total=None, told="waiting for the first micro-batch")
        self._counts: Counter[str] = Counter()
        self._began = self._last = perf_counter()
        self._is_told_each = is_told_each
        self._waiting = 0
        self.commits = 0

    def begin(self, running: RunningIngest) -> None:
        self._waiting = running.waiting
        self.bar.update(self._task, total=running.waiting or None)

    def commit(self, commit: Commit) -> None:
        self.commits += 1
        self._counts.update(commit.counts)
        if self._is_told_each:
            self._tell(commit)
        read = self._counts["read"]
        left = max(0, self._waiting - read)
        told = f"{read:,} messages  {self._rate:,.0f}/s  {left:,} left  commit {commit.commit}"
        self.bar.update(self._task, completed=read, told=told)

    def _tell(self, commit: Commit) -> None:
        """`seconds`: since the commit before it, so waiting for messages is in it."""
        seconds, self._last = perf_counter() - self._last, perf_counter()
        print_lines([{"commit": commit.commit, "at": commit.at, "to": commit.last, **commit.counts, "seconds": round(seconds, 3)}])

    def ending(self) -> None:
        self.bar.update(self._task, told="ending after this micro-batch; Ctrl-C again ends it at once")

    def end(self, as_json: bool) -> None:
        told = {"commits": self.commits, **self._counts, "seconds": round(self._seconds, 1), "messages_per_s": round(self._rate)}
        if self._is_told_each:
            print_lines([told])
        elif as_json:
            print_json(told)
        else:
            console().print(grid(told.items()))

    @property
    def _seconds(self) -> float:
        return perf_counter() - self._began

    @property
    def _rate(self) -> float:
        return self._counts["read"] / self._seconds
