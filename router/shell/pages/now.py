"""The tables of the page Now, each by itself: sorted, filtered and exported. The figures are those
of the last reading.
"""

from __future__ import annotations

from router.core.errors import BrokerUnavailable
from router.shell.page_data import Page, PageParams, Sources
from router.shell.rendering import format_moment
from router.shell.sampler import NowState
from router.shell.scrape import ConsumerBacklog, Sample
from router.shell.table import Table
from router.shell.view import View, ViewColumn


def _leave_out_empty(text: str) -> str | None:
    return text or None


def _round(rate: float) -> float:
    return round(rate, 3)


RATE = ViewColumn("rate", None, "A second", page=_round, kind="number")
PROVIDER = ViewColumn("provider", None, "Provider", page=_leave_out_empty)
ANSWERS = View(
    ViewColumn("tenant", None, "Tenant", page=_leave_out_empty),
    PROVIDER,
    RATE,
    ViewColumn("errors", None, "Refused", kind="percent"),
    ViewColumn("worst", None, "Because", page=_leave_out_empty),
)
WORK = View(
    PROVIDER,
    RATE,
    ViewColumn("errors", None, "Failed", kind="percent"),
    ViewColumn("worst", None, "Mostly", page=_leave_out_empty),
)
ALERTS = View(
    ViewColumn("at", None, "Heard", page=format_moment, kind="time"),
    ViewColumn("severity", None, "Severity", kind="verdict"),
    ViewColumn("component", None, "From"),
    ViewColumn("message", None, "It says"),
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
    return _build_page("Answers", now, ANSWERS.make_table(lines, empty=_explain(now)))


async def read_work(sources: Sources, _: PageParams) -> Page:
    """What workers reported, by provider."""
    now = await sources.sampler.read_now()
    lines = now.figures.providers if now.figures is not None else ()
    return _build_page("Work", now, WORK.make_table(lines, empty=_explain(now)))


async def read_backlog(sources: Sources, _: PageParams) -> Page:
    """Of each consumer. Raises BrokerUnavailable."""
    now = await sources.sampler.read_now()
    if now.sample is None or now.sample.backlog is None:
        raise BrokerUnavailable(now.broker_cause or "the broker was not read yet")
    table = _make_backlog_view(now.sample).make_table(
        now.sample.backlog, empty="No consumer of a router exists here. `router serve` makes them."
    )
    return _build_page("Backlog", now, table)


async def read_alerts(sources: Sources, _: PageParams) -> Page:
    """Those that this console heard, the newest first: nothing stores them."""
    now = await sources.sampler.read_now()
    since = (
        f"None since {format_moment(now.hears_since)}."
        if now.hears_since is not None
        else "Alerts are not heard."
    )
    note = "Those that this console heard, at most 50."
    return _build_page("Alerts", now, ALERTS.make_table(now.alerts, empty=since, note=note))


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


def _make_backlog_view(sample: Sample) -> View:
    gauges = sample.totals.gauges

    def count_waiting(backlog: ConsumerBacklog) -> float:
        names = ("router_storage_waiting", "router_bucket_waiting")
        return sum(gauges[name, backlog.durable] for name in names)

    return View(
        ViewColumn("consumer", None, "Consumer", of="durable"),
        ViewColumn("stream", None, "Stream"),
        ViewColumn("pending", None, "Waiting", kind="number"),
        ViewColumn("unacked", None, "In flight", kind="number"),
        ViewColumn("redelivered", None, "Redelivered", kind="number"),
        ViewColumn(
            "paused",
            None,
            "Paused in",
            of=lambda backlog: gauges["router_consumer_paused", backlog.durable],
            kind="number",
        ),
        ViewColumn("storage", None, "Wait for storage", of=count_waiting, kind="number"),
    )
