"""The tables of the page Now, each by itself: sorted, filtered and exported. The figures are those
of the last reading.
"""

from __future__ import annotations

from router.core.errors import BrokerUnavailable
from router.shell.figures import AnswerLine, ConsumerBacklog, Sample
from router.shell.page_data import Page, PageParams, Sources
from router.shell.rendering import format_moment
from router.shell.sampler import NowState
from router.shell.table import Column, Row, Table

RATE, REFUSED, FAILED = (
    Column("rate", "A second", "number"),
    Column("errors", "Refused", "percent"),
    Column("errors", "Failed", "percent"),
)
ANSWER_COLUMNS = (
    Column("tenant", "Tenant"),
    Column("provider", "Provider"),
    RATE,
    REFUSED,
    Column("worst", "Because"),
)
WORK_COLUMNS = (Column("provider", "Provider"), RATE, FAILED, Column("worst", "Mostly"))
BACKLOG_COLUMNS = (
    Column("consumer", "Consumer"),
    Column("stream", "Stream"),
    Column("pending", "Waiting", "number"),
    Column("unacked", "In flight", "number"),
    Column("redelivered", "Redelivered", "number"),
    Column("paused", "Paused in", "number"),
    Column("storage", "Wait for storage", "number"),
)
ALERT_COLUMNS = (
    Column("at", "Heard", "time"),
    Column("severity", "Severity", "verdict"),
    Column("component", "From"),
    Column("message", "It says"),
)
TABS = (
    ("/now/answers", "Answers"),
    ("/now/work", "Work"),
    ("/now/backlog", "Backlog"),
    ("/now/alerts", "Alerts"),
)


async def read_answers(sources: Sources, _: PageParams) -> Page:
    """By tenant and provider, those with errors first; without a provider those that were refused."""
    now = await sources.sampler.read_now()
    lines = now.figures.tenants if now.figures is not None else ()
    return _build_page(
        "Answers",
        now,
        Table(columns=ANSWER_COLUMNS, rows=[_build_row(one) for one in lines], empty=_explain(now)),
    )


async def read_work(sources: Sources, _: PageParams) -> Page:
    """What workers reported, by provider."""
    now = await sources.sampler.read_now()
    lines = now.figures.providers if now.figures is not None else ()
    return _build_page(
        "Work",
        now,
        Table(columns=WORK_COLUMNS, rows=[_build_row(one) for one in lines], empty=_explain(now)),
    )


async def read_backlog(sources: Sources, _: PageParams) -> Page:
    """Of each consumer. Raises BrokerUnavailable."""
    now = await sources.sampler.read_now()
    if now.sample is None or now.sample.backlog is None:
        raise BrokerUnavailable(now.broker_cause or "the broker was not read yet")
    rows = [_build_backlog_row(one, now.sample) for one in now.sample.backlog]
    empty = "No consumer of a router exists here. `router serve` makes them."
    return _build_page("Backlog", now, Table(columns=BACKLOG_COLUMNS, rows=rows, empty=empty))


async def read_alerts(sources: Sources, _: PageParams) -> Page:
    """Those that this console heard, the newest first: nothing stores them."""
    now = await sources.sampler.read_now()
    rows: list[Row] = [
        {
            "at": format_moment(one.at),
            "severity": one.severity,
            "component": one.component,
            "message": one.message,
        }
        for one in now.alerts
    ]
    since = (
        f"None since {format_moment(now.hears_since)}."
        if now.hears_since is not None
        else "Alerts are not heard."
    )
    return _build_page(
        "Alerts",
        now,
        Table(
            columns=ALERT_COLUMNS,
            rows=rows,
            empty=since,
            note="Those that this console heard, at most 50.",
        ),
    )


def _build_page(title: str, now: NowState, table: Table) -> Page:
    window = f"the last {now.figures.seconds:.0f} s, " if now.figures is not None else ""
    read = format_moment(now.sample.at) if now.sample is not None else "never"
    return Page(title=title, lead=f"{window}read {read}", back=("/", "Now"), tabs=TABS, table=table)


def _explain(now: NowState) -> str:
    return (
        "None in this time."
        if now.figures is not None
        else "Routers were not read twice yet: open this page again in two seconds."
    )


def _build_row(line: AnswerLine) -> Row:
    return {
        "tenant": line.tenant or None,
        "provider": line.provider or None,
        "rate": round(line.rate, 3),
        "errors": line.errors,
        "worst": line.worst or None,
    }


def _build_backlog_row(one: ConsumerBacklog, sample: Sample) -> Row:
    gauges = sample.totals.gauges
    waiting = (
        gauges["router_storage_waiting", one.durable] + gauges["router_bucket_waiting", one.durable]
    )
    counts = {"pending": one.pending, "unacked": one.unacked, "redelivered": one.redelivered}
    return {
        "consumer": one.durable,
        "stream": one.stream,
        **counts,
        "paused": gauges["router_consumer_paused", one.durable],
        "storage": waiting,
    }
