"""What was used, from the usage tables: counts, costs, percentiles and error rates for a period."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from typing import TYPE_CHECKING

from router.core.errors import Misconfigured
from router.lake.views import make_usage_view
from router.shell.page_data import (
    BarChart,
    Fact,
    FactList,
    InvalidAddress,
    Page,
    PageParams,
    Sources,
    build_command,
)
from router.shell.table import MAX_ROWS, TableFilter

if TYPE_CHECKING:
    from router.lake.report import ReportLine, UsageReport

MAX_DAYS = 92
MAX_NAMED_DAYS = 7  # in the command
DEFAULT_BY = "day,tenant,provider"
FILTERS = (
    TableFilter("by", "By", DEFAULT_BY),
    TableFilter("from", "From", "2026-11-01"),
    TableFilter("to", "To", "2026-11-30"),
    TableFilter("tenant", "Tenant"),
    TableFilter("provider", "Provider"),
)
# not the loop's own threads, which every other page needs
_READERS = ThreadPoolExecutor(2, thread_name_prefix="usage")
NO_TABLES = (
    "`router usage ingest --warehouse DIR` fills them from the stream of usage; the setting "
    "console.warehouse names the directory."
)


async def read_usage(sources: Sources, params: PageParams) -> Page:
    """The report of `router usage report`, read in a thread of its own kind: a bucket that answers
    late holds it for minutes.
    """
    warehouse, by = sources.settings.console.warehouse, params.text("by") or DEFAULT_BY
    options = {name: params.text(name) for name in ("by", "tenant", "provider")}
    days = _list_days(params)
    words = [word for day in days for word in ("--day", day)] if len(days) <= MAX_NAMED_DAYS else []
    command = build_command("router", "usage", "report", *words, warehouse=warehouse, **options)
    try:
        made = await asyncio.get_running_loop().run_in_executor(
            _READERS, _read_report, warehouse, by, days, params
        )
    except ImportError:
        return _build_empty_page(
            command, "The page needs pyarrow: pip install 'beamline-router[spark]'. "
        )
    except Misconfigured as exc:
        raise InvalidAddress(str(exc)) from exc
    if made is None:
        return _build_empty_page(command, f"There are no usage tables in {warehouse}. {NO_TABLES}")
    note = (
        f"The first {MAX_ROWS:,} of {len(made.rows):,} lines: choose fewer names in By."
        if len(made.rows) > MAX_ROWS
        else ""
    )
    return Page(
        title="Usage",
        lead=f"from the tables in {warehouse}",
        command=command,
        charts=_draw(made),
        lists=[_list_totals(made.totals)] if made.totals is not None else (),
        table=make_usage_view(made.by).make_table(
            made.iterate_lines(MAX_ROWS), empty="No usage matches.", filters=FILTERS, note=note
        ),
    )


def _list_days(params: PageParams) -> Sequence[str]:
    """The days of the period, both ends among them; none: every day. Raises InvalidAddress."""
    names = [params.text(name) for name in ("from", "to")]
    if names == [None, None]:
        return ()
    try:
        first, last = (
            date.fromisoformat(name or other or "") for name, other in (names, names[::-1])
        )
    except ValueError:
        raise InvalidAddress(
            "from, to: a day as YYYY-MM-DD; one of them alone is that day"
        ) from None
    if not 0 <= (last - first).days < MAX_DAYS:
        raise InvalidAddress(f"from, to: at most {MAX_DAYS} days, the first of them first")
    return [
        (first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)
    ]


def _draw(report: UsageReport) -> Sequence[BarChart]:
    """Events and cost of each day, if the lines are by day; a day without events is a gap."""
    if "day" not in report.by or not len(report.rows):
        return ()
    added = report.rows.group_by("day").aggregate([("count", "sum"), ("cost", "sum")]).to_pylist()
    sums = {row["day"]: (int(row["count_sum"]), float(row["cost_sum"])) for row in added}
    first, last = (date.fromisoformat(choose(sums)) for choose in (min, max))
    first = max(first, last - timedelta(days=MAX_DAYS - 1))
    days = [
        (first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)
    ]
    titles = ("Events a day", "Cost a day")
    return [
        BarChart(title, [(day, sums.get(day, (0, 0.0))[place]) for day in days])
        for place, title in enumerate(titles)
    ]


def _read_report(
    location: str, by: str, days: Sequence[str], params: PageParams
) -> UsageReport | None:
    """None: there are no tables."""
    from router.lake.report import UsageQuery, parse_dimensions, read_report
    from router.lake.warehouse import Warehouse

    query = UsageQuery(
        by=parse_dimensions(by.split(",")),
        days=tuple(days),
        tenants=tuple(value for name in ("tenant",) if (value := params.text(name))),
        providers=tuple(value for name in ("provider",) if (value := params.text(name))),
    )
    warehouse = Warehouse(location)
    warehouse.refuse_old_form()
    return read_report(warehouse, query) if warehouse.head() else None


def _build_empty_page(command: str, text: str) -> Page:
    return Page(
        title="Usage",
        command=command,
        table=make_usage_view(()).make_table((), empty=text, filters=FILTERS),
    )


def _list_totals(totals: ReportLine) -> FactList:
    view = make_usage_view(())
    figures = view.build_row(totals)
    return FactList(
        "In all",
        [
            Fact(column.label, figures[column.name], kind=column.kind)
            for column in view.page_columns
        ],
    )
