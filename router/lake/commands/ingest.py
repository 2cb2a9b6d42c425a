"""`router usage ingest`: write the stream's new messages into the tables, and show the progress.

What the settings say of the stream stands first, for all commands that read it: its connection as
options of the `jetstream` source, and the bounds of an event.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from router.config import NatsConfig, Settings
from router.lake.commands.command import (
    WAREHOUSE,
    Master,
    WarehouseAt,
    open_spark,
    warehouse_command,
)
from router.lake.session import check_spark
from router.lake.tables.body import EventBounds
from router.shell.command_frame import CommandSession
from router.shell.exit_codes import complain
from router.shell.output import build_grid, open_console, print_json, print_json_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from router.lake.jobs.ingest import IngestJob, RunningIngest
    from router.lake.jobs.stream_end import StreamReport
    from router.lake.source.options import SourceOptions
    from router.lake.warehouse import Cut

# -- The command.

PROGRESS_EVERY_S = 1
AWAY_S = 5.0  # how long the broker may be silent before the job starts

Continuous = Annotated[
    bool,
    typer.Option(
        "--continuous/--available-now", help="Run for ever, or end at the stream's present end."
    ),
]
Rows = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Messages in a micro-batch, at most: what is held in memory at once.",
        min=1,
    ),
]
Partitions = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Ranges that are read side by side. Default: what the cluster runs at once.",
        min=1,
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Spark's own notes, which may be lost. Default: a temporary directory.",
    ),
]
OnLoss = Annotated[
    bool,
    typer.Option(
        "--fail-on-data-loss/--accept-data-loss",
        help="End if messages were lost, or go on without them.",
    ),
]


@warehouse_command()
def ingest(
    session: CommandSession,
    *,
    continuous: Continuous = False,
    max_rows: Rows = 500_000,
    partitions: Partitions = None,
    fail_on_data_loss: OnLoss = True,
    checkpoint: Checkpoint = None,
    master: Master = None,
    warehouse: WarehouseAt = WAREHOUSE,
) -> None:
    """Read the usage stream into the warehouse. Each micro-batch counts completely or not at all,
    once, whatever process dies.

    With --continuous and --json, or if standard error is no terminal, each commit is a line of
    JSON. `events_behind` and `seconds_behind` say how far the tables are behind the stream's end.
    With the setting `usage.trim_ingested` the stream loses what the tables hold.

    Ctrl-C ends it after the micro-batch that is being written; a second one at once. Neither loses
    anything.

    Example:  router usage ingest --warehouse usage --nats-url nats://localhost:4222
    """
    settings = session.settings
    check_spark()
    stream = settings.streams.usage.name
    _check_broker(settings, stream)
    _check_warehouse(warehouse)
    try:
        with open_spark(master) as spark:
            from router.lake.jobs.ingest import IngestJob

            source = {
                **make_source_options(settings.nats, stream),
                "failOnDataLoss": str(fail_on_data_loss).lower(),
            }
            job = IngestJob(
                warehouse=warehouse,
                source=source,
                continuous=continuous,
                max_rows=max_rows,
                partitions=partitions,
                checkpoint=checkpoint,
                bounds=make_bounds(settings),
                is_trimmed=settings.usage.trim_ingested,
            )
            _watch(spark, job, session.as_json)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "what was committed counts, and the next run continues there"
        ) from None


def _check_broker(settings: Settings, stream: str) -> None:
    """Connect before Spark starts, so that a missing or wrong broker is reported at once."""
    from router.lake.source.broker import read_facts

    read_facts(replace(read_source_options(settings.nats, stream), timeout_s=AWAY_S))


def _check_warehouse(location: str) -> None:
    """Ask for the bucket before Spark starts."""
    from router.lake.warehouse import Warehouse

    warehouse = Warehouse(location)
    warehouse.storage.check()
    warehouse.refuse_old_form()


def _watch(spark: SparkSession, job: IngestJob, as_json: bool) -> None:
    from router.lake.jobs.ingest import start_ingest

    is_told_each = job.continuous and (as_json or not sys.stderr.isatty())
    shown = IngestProgress(is_quiet=as_json, is_told_each=is_told_each, is_trimmed=job.is_trimmed)
    with shown.bar, _count_interrupts(shown) as asked:
        running = start_ingest(spark, job, shown.on_cut)
        shown.begin(running)
        while not running.wait(PROGRESS_EVERY_S):
            if asked and (shown.cuts > asked[0] or not running.is_busy):
                # of the next batch, which may have begun and is cut short
                spark.sparkContext.setLogLevel("OFF")
                running.stop()
    shown.end(as_json)


@contextmanager
def _count_interrupts(shown: IngestProgress) -> Iterator[list[int]]:
    """Yield the number of commits at the first Ctrl-C. Spark's own handler would cancel the batch;
    this one lets it finish.
    """
    asked: list[int] = []

    def on_interrupt(*_: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(shown.cuts)
        shown.show_ending()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


class IngestProgress:
    """Shows rows, rate and what is left, and at the end the totals.

    `is_told_each`: print a line of JSON for each commit, for those who collect the logs of an
    endless query.
    """

    def __init__(
        self, *, is_quiet: bool, is_told_each: bool = False, is_trimmed: bool = False
    ) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("ingesting"),
            BarColumn(),
            TextColumn("{task.fields[told]}"),
        )
        self.bar = Progress(
            *columns,
            console=Console(stderr=True),
            transient=True,
            disable=is_quiet or not sys.stderr.isatty(),
        )
        self._task = self.bar.add_task("", total=None, told="waiting for the first micro-batch")
        self._counts: Counter[str] = Counter()
        self._began = self._last = perf_counter()
        self._is_told_each = is_told_each
        self._is_trimmed = is_trimmed
        self._lag: dict[str, object] = {}
        self._waiting = 0
        self.cuts = 0

    def begin(self, running: RunningIngest) -> None:
        self._waiting = running.waiting
        self.bar.update(self._task, total=running.waiting or None)

    def on_cut(self, cut: Cut, report: StreamReport) -> None:
        self.cuts += 1
        self._counts.update(
            {**cut.counts, "trimmed": report.trimmed or 0} if self._is_trimmed else cut.counts
        )
        self._lag = {"events_behind": report.events_behind, "seconds_behind": report.seconds_behind}
        if self._is_trimmed and report.trimmed is None:
            complain(
                f"cut {cut.number}: the broker did not delete what the tables hold; the "
                "next cut asks again"
            )
        if self._is_told_each:
            self._print_cut(cut)
        read = self._counts["read"]
        behind = "?" if report.events_behind is None else f"{report.events_behind:,}"
        status = (
            f"{read:,} messages  {self._rate:,.0f}/s  {behind} behind the stream's end  cut "
            f"{cut.number}"
        )
        self.bar.update(self._task, completed=read, told=status)

    def _print_cut(self, cut: Cut) -> None:
        """`seconds`: since the previous commit, with the time of waiting for messages."""
        seconds, self._last = perf_counter() - self._last, perf_counter()
        print_json_lines(
            [
                {
                    "cut": cut.number,
                    "at": cut.at,
                    "to": cut.progress.last if cut.progress else None,
                    **cut.counts,
                    **self._lag,
                    "seconds": round(seconds, 3),
                }
            ]
        )

    def show_ending(self) -> None:
        """Say what a first Ctrl-C does, in the bar, or on standard error if there is none."""
        text = "ending after this micro-batch; Ctrl-C again ends it at once"
        self.bar.update(self._task, told=text)
        if self.bar.disable:
            complain(text)

    def end(self, as_json: bool) -> None:
        speed = {"seconds": round(self._seconds, 1), "messages_per_s": round(self._rate)}
        totals = {"batches": self.cuts, **self._counts, **self._lag, **speed}
        if self._is_told_each:
            print_json_lines([totals])
        elif as_json:
            print_json(totals)
        else:
            open_console().print(build_grid(totals.items()))

    @property
    def _seconds(self) -> float:
        return perf_counter() - self._began

    @property
    def _rate(self) -> float:
        return self._counts["read"] / self._seconds


# -- The settings, as options of the source and as bounds.

SILENCE_MS = 15_000  # a person is waiting, and a busy server may be slow


def make_source_options(config: NatsConfig, stream: str) -> dict[str, str]:
    """Return the options that `spark.read.format("jetstream").options(…)` takes."""
    named = {
        "url": ",".join(config.url),
        "stream": stream,
        "name": config.name,
        "domain": config.js_domain,
        "credsFile": config.creds_file,
        "nkeyFile": config.nkey_file,
        "user": config.user,
        "password": config.password.get_secret_value() if config.password is not None else None,
        "token": config.token.get_secret_value() if config.token is not None else None,
        "tlsCa": config.tls_ca,
        "tlsCert": config.tls_cert,
        "tlsKey": config.tls_key,
        "tlsHostname": config.tls_hostname,
        "inboxPrefix": config.inbox_prefix,
    }
    return {name: str(value) for name, value in named.items() if value is not None}


def make_bounds(settings: Settings) -> EventBounds:
    """Return the limits of a result, widened by how long results and dead letters are stored before
    their event is.
    """
    results, waits_ms = (
        settings.results,
        settings.streams.results.max_age_ms + settings.streams.dlq.max_age_ms,
    )
    return EventBounds(
        max_cost=Decimal(results.max_cost),
        max_age_ms=results.max_timestamp_age_ms + waits_ms,
        max_ahead_ms=results.max_timestamp_ahead_ms,
    )


def read_source_options(
    config: NatsConfig, stream: str, *, has_headers: bool = False
) -> SourceOptions:
    """Return checked options, for a reader without Spark. Raises Misconfigured."""
    from router.lake.source.options import read_options

    silence = {"timeoutMs": str(SILENCE_MS), "includeHeaders": str(has_headers).lower()}
    return read_options({**make_source_options(config, stream), **silence})
