"""What was used, from the usage tables: counts, costs, percentiles and error rates for a period."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from router.console.page import Fact, FactList, InvalidAddress, Page, PageParams, Sources, build_command
from router.console.table import MAX_ROWS, Column, Row, Table, TableFilter
from router.core.errors import Misconfigured

if TYPE_CHECKING:
    from router.lake.report import ReportLine, UsageReport

DEFAULT_BY = "day,tenant,provider"
FILTERS = (
    TableFilter("by", "By", DEFAULT_BY),
    TableFilter("day", "Day", "2026-11-20"),
    TableFilter("tenant", "Tenant"),
    TableFilter("provider", "Provider"),
)
FIGURES = (
    Column("count", "Events", "number"),
    Column("cost", "Cost", "number"),
    Column("failed", "Failed", "percent"),
    Column("p50", "p50 ms", "number"),
    Column("p95", "p95 ms", "number"),
    Column("p99", "p99 ms", "number"),
)
LABELS = {"day": "Day", "tenant_id": "Tenant", "provider_id": "Provider", "event_type": "Type", "status": "Status"}
NO_TABLES = "`router usage ingest --warehouse DIR` fills them from the stream of usage; the setting console.warehouse names the directory."


async def read_usage(sources: Sources, params: PageParams) -> Page:
    """The report of `router usage report`, read in a thread."""
    warehouse, by = sources.settings.console.warehouse, params.text("by") or DEFAULT_BY
    options = {name: params.text(name) for name in ("by", "day", "tenant", "provider")}
    command = build_command("router", "usage", "report", warehouse=warehouse, **options)
    try:
        made = await asyncio.to_thread(_read_report, warehouse, by, params)
    except ImportError:
        return _build_empty_page(command, "The page needs pyarrow: pip install 'beamline-router[spark]'. ")
    except Misconfigured as exc:
        raise InvalidAddress(str(exc)) from exc
    if made is None:
        return _build_empty_page(command, f"There are no usage tables in {warehouse}. {NO_TABLES}")
    columns = (*(Column(name, LABELS[name]) for name in made.by), *FIGURES)
    rows = [{**line.group, **_list_figures(line)} for line in made.lines[:MAX_ROWS]]
    note = f"The first {MAX_ROWS:,} of {len(made.lines):,} lines: choose fewer names in By." if len(made.lines) > MAX_ROWS else ""
    return Page(
        title="Usage",
        lead=f"from the tables in {warehouse}",
        command=command,
        lists=[_list_totals(made.totals)] if made.totals is not None else (),
        table=Table(columns=columns, rows=rows, empty="No usage matches.", filters=FILTERS, note=note),
    )


def _read_report(location: str, by: str, params: PageParams) -> UsageReport | None:
    """None: there are no tables."""
    from router.lake.report import UsageQuery, parse_days, parse_dimensions, read_report
    from router.lake.warehouse import Warehouse

    query = UsageQuery(
        by=parse_dimensions(by.split(",")),
        days=parse_days([params.values["day"]] if "day" in params.values else ()),
        tenants=tuple(value for name in ("tenant",) if (value := params.text(name))),
        providers=tuple(value for name in ("provider",) if (value := params.text(name))),
    )
    warehouse = Warehouse(location)
    return read_report(warehouse, query) if warehouse.head() else None


def _build_empty_page(command: str, text: str) -> Page:
    return Page(title="Usage", command=command, table=Table(columns=FIGURES, rows=(), empty=text, filters=FILTERS))


def _list_figures(line: ReportLine) -> Row:
    p50, p95, p99 = line.percentiles.values()
    return {"count": line.count, "cost": float(line.cost), "failed": line.error_rate, "p50": p50, "p95": p95, "p99": p99}


def _list_totals(totals: ReportLine) -> FactList:
    figures = _list_figures(totals)
    kinds = {column.name: column for column in FIGURES}
    return FactList("In all", [Fact(kinds[name].label, value, kind=kinds[name].kind) for name, value in figures.items()])
