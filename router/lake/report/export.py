"""Write the sums of a period into a file, one day at a time, as of one cut: as they are, or as
charges of FOCUS.

    2026-10      2026-10-05      2026-10-01..2026-10-15      a period: a month, a day, days (both
                                 inclusive); UTC

Amounts keep nine decimals. In CSV, no cell is a formula for a spreadsheet (`names`).
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from msgspec import Struct

from router.contracts.decision import ADJUSTMENT_TYPE
from router.core.errors import Misconfigured
from router.core.legible import escape_cell
from router.core.whole_files import replace_file
from router.lake.files import read_columns
from router.lake.tables.arrow import ARROW
from router.lake.tables.gold import INSTANT, MONEY_TYPE, sum_figures
from router.lake.tables.gold_columns import GOLD_COLUMNS, GOLD_DIMENSIONS, NO_MODEL
from router.lake.warehouse import DataFile, Warehouse

# -- Gold's sums as charges of the FinOps Open Cost and Usage Specification (FOCUS,
# https://focus.finops.org), version 1.2.
#
#     a tenant's sum of a day  ->  a charge of category Usage; the tenant is the billing account
#     adjustments of a day     ->  a charge of category Adjustment, once, of either sign, and of no
#                                  quantity
#     events of a sealed day   ->  charges of that day, in the billing period in which they came;
#                                  Corrections if that is a later one
#     uncorrelated events      ->  no charge: they are in no cost
#
# An adjustment is no Credit, which a provider grants; what it corrects is no promotion.
#
# Router knows no discounts: all four costs are the cost. It knows one provider of a charge, who
# provides, publishes and invoices. Columns of ours have the prefix that the specification asks for,
# `x_`. The model is one of them and no SkuId: that names an entry of a list that the provider
# publishes, and may not be null in a charge of usage.


UNIT = "Requests"
SERVICE_CATEGORY = "AI and Machine Learning"
SCHEMA = pa.schema(
    [
        pa.field("BilledCost", MONEY_TYPE, nullable=False),
        pa.field("BillingAccountId", pa.string(), nullable=False),
        pa.field("BillingAccountName", pa.string()),
        pa.field("BillingCurrency", pa.string(), nullable=False),
        pa.field("BillingPeriodEnd", INSTANT, nullable=False),
        pa.field("BillingPeriodStart", INSTANT, nullable=False),
        pa.field("ChargeCategory", pa.string(), nullable=False),
        pa.field("ChargeClass", pa.string()),
        pa.field("ChargeDescription", pa.string()),
        pa.field("ChargeFrequency", pa.string(), nullable=False),
        pa.field("ChargePeriodEnd", INSTANT, nullable=False),
        pa.field("ChargePeriodStart", INSTANT, nullable=False),
        pa.field("ConsumedQuantity", MONEY_TYPE),
        pa.field("ConsumedUnit", pa.string()),
        pa.field("ContractedCost", MONEY_TYPE, nullable=False),
        pa.field("EffectiveCost", MONEY_TYPE, nullable=False),
        pa.field("InvoiceIssuerName", pa.string(), nullable=False),
        pa.field("ListCost", MONEY_TYPE, nullable=False),
        pa.field("PricingQuantity", MONEY_TYPE),
        pa.field("PricingUnit", pa.string()),
        pa.field("ProviderName", pa.string(), nullable=False),
        pa.field("PublisherName", pa.string(), nullable=False),
        pa.field("ServiceCategory", pa.string(), nullable=False),
        pa.field("ServiceName", pa.string(), nullable=False),
        pa.field("x_CachedTokens", pa.int64()),
        pa.field("x_EstimatedCost", MONEY_TYPE),
        pa.field("x_InputTokens", pa.int64()),
        pa.field("x_Model", pa.string()),
        pa.field("x_OutputTokens", pa.int64()),
        pa.field("x_Status", pa.string(), nullable=False),
    ]
)
_COSTS = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")
_PROVIDERS = ("InvoiceIssuerName", "ProviderName", "PublisherName")
_QUANTITIES = ("ConsumedQuantity", "PricingQuantity")
_UNITS = ("ConsumedUnit", "PricingUnit")
_OUR_FIGURES = {
    "x_CachedTokens": "cached_tokens",
    "x_EstimatedCost": "estimated_cost",
    "x_InputTokens": "input_tokens",
    "x_OutputTokens": "output_tokens",
}


def make_charges(sums: pa.Table, currency: str) -> pa.Table:
    """Return a charge for each sum of a day (window_start, the dimensions, corrects_window,
    figures) that has money or a request.
    """
    sums = sums.filter(_is_charged(sums))
    is_adjustment = pc.equal(sums["event_type"], ADJUSTMENT_TYPE)
    day = pc.coalesce(sums["corrects_window"], sums["window_start"])
    billed, charged = _floor(sums["window_start"], "month"), _floor(day, "month")
    constants = {"BillingCurrency": currency, "ServiceCategory": SERVICE_CATEGORY}
    columns = {
        **{name: pa.repeat(pa.scalar(value), len(sums)) for name, value in constants.items()},
        **dict.fromkeys(_COSTS, sums["cost"]),
        **dict.fromkeys(_PROVIDERS, sums["provider_id"]),
        **dict.fromkeys(
            _QUANTITIES,
            pc.if_else(is_adjustment, pa.scalar(None, MONEY_TYPE), sums["count"].cast(MONEY_TYPE)),
        ),
        **dict.fromkeys(_UNITS, pc.if_else(is_adjustment, pa.scalar(None, pa.string()), UNIT)),
        **{name: sums[figure] for name, figure in _OUR_FIGURES.items()},
        "ChargeCategory": pc.if_else(is_adjustment, "Adjustment", "Usage"),
        "ChargeFrequency": pc.if_else(is_adjustment, "One-Time", "Usage-Based"),
        "BillingAccountId": sums["tenant_id"],
        "BillingAccountName": pa.nulls(len(sums), pa.string()),
        "BillingPeriodStart": billed,
        "BillingPeriodEnd": _add_month(billed),
        "ChargeClass": pc.if_else(
            pc.not_equal(billed, charged), "Correction", pa.scalar(None, pa.string())
        ),
        "ChargeDescription": pc.binary_join_element_wise(
            sums["event_type"], sums["provider_id"], sums["status"], ", "
        ),
        "ChargePeriodStart": day,
        "ChargePeriodEnd": pc.add(day, pa.scalar(86_400_000_000, pa.duration("us"))),
        "ServiceName": sums["event_type"],
        "x_Model": pc.if_else(
            pc.equal(sums["model"], NO_MODEL), pa.scalar(None, pa.string()), sums["model"]
        ),
        "x_Status": sums["status"],
    }
    return pa.table({name: columns[name] for name in SCHEMA.names}, schema=SCHEMA)


def _is_charged(sums: pa.Table) -> pa.ChunkedArray:
    """Whether a sum has an outcome or an adjustment; one of uncorrelated events alone has neither."""
    return pc.or_(
        pc.greater(sums["count"], 0), pc.greater(pc.fill_null(sums["adjustment_count"], 0), 0)
    )


def _floor(instants: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    return pc.floor_temporal(instants.cast(pa.timestamp("us")), unit=unit).cast(INSTANT)


def _add_month(starts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the starts of the next months: 32 days after a month's start is in the next one."""
    return _floor(pc.add(starts, pa.scalar(32 * 86_400_000_000, pa.duration("us"))), "month")


# -- Write the sums of a period into a file, one day at a time, as of one cut.


TABLE = "gold_day"
MAX_DAYS = 3660
KEYS = ("window_start", *GOLD_DIMENSIONS, "corrects_window")
FIGURE_NAMES = tuple(column.name for column in GOLD_COLUMNS)
PLAIN = pa.schema(
    [
        *(pa.field(name, ARROW[TABLE].field(name).type) for name in (*KEYS, *FIGURE_NAMES)),
        pa.field("currency", pa.string()),
    ]
)
ExportFormat = Literal["focus", "parquet", "csv"]
_PERIOD = re.compile(r"(\d{4}-\d{2})|(\d{4}-\d{2}-\d{2})(?:\.\.(\d{4}-\d{2}-\d{2}))?", re.ASCII)


class Period(Struct, frozen=True):
    """Days, both inclusive, UTC."""

    first: date
    last: date

    def has(self, day: str | None) -> bool:
        return day is not None and str(self.first) <= day <= str(self.last)


class Export(Struct, frozen=True, kw_only=True):
    """What was written."""

    rows: int
    cut: int
    days: int


def parse_period(text: str) -> Period:
    """Raises Misconfigured."""
    match = _PERIOD.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        month, first, last = match.groups()
        period = (
            _read_month(month)
            if month
            else Period(date.fromisoformat(first), date.fromisoformat(last or first))
        )
    except ValueError as exc:
        raise Misconfigured(
            "--period",
            f"{text!r}: a month as 2026-10, a day as 2026-10-05, or days as 2026-10-01..2026-10-15",
        ) from exc
    if not 0 <= (period.last - period.first).days < MAX_DAYS:
        raise Misconfigured("--period", f"{text}: from 1 to {MAX_DAYS} days, the first one first")
    return period


def export(
    warehouse: Warehouse,
    period: Period,
    form: ExportFormat,
    output: Path,
    *,
    currency: str,
    as_of_cut: int | None = None,
) -> Export:
    """Write the file, which appears when it is whole. `focus` is CSV, or Parquet if the file's name
    ends so.

    Raises Misconfigured, FileNotWritten.
    """
    cut = warehouse.cut(as_of_cut)
    if cut is None:
        raise Misconfigured(
            "--as-of-cut", f"there is no cut {as_of_cut}: the newest is {warehouse.head()}"
        )
    files = [file for file in warehouse.files(TABLE, cut.number) if period.has(file.day)]
    days, rows = sorted({file.day or "" for file in files}), 0
    schema = SCHEMA if form == "focus" else PLAIN
    with _open_output(
        output,
        schema,
        is_parquet=form == "parquet" or (form == "focus" and output.suffix == ".parquet"),
    ) as write:
        for day in days:
            sums = _sum_day(warehouse, [file for file in files if file.day == day])
            made = (
                make_charges(sums, currency) if form == "focus" else _add_currency(sums, currency)
            )
            write(made)
            rows += len(made)
    return Export(rows=rows, cut=cut.number, days=len(days))


def _read_month(text: str) -> Period:
    year, month = map(int, text.split("-"))
    first = date(year, month, 1)
    return Period(first, first.replace(day=monthrange(year, month)[1]))


def _sum_day(warehouse: Warehouse, files: list[DataFile]) -> pa.Table:
    rows = read_columns(warehouse, TABLE, files, (*KEYS, *FIGURE_NAMES))
    return sum_figures(rows, KEYS, "day").sort_by([(key, "ascending") for key in KEYS])


def _add_currency(sums: pa.Table, currency: str) -> pa.Table:
    whole = sums.append_column("currency", pa.repeat(pa.scalar(currency), len(sums)))
    return whole.select(PLAIN.names).cast(PLAIN)


@contextmanager
def _open_output(
    output: Path, schema: pa.Schema, *, is_parquet: bool
) -> Iterator[Callable[[pa.Table], None]]:
    """Yield the function that writes rows. The file takes its place when all of them are written.
    Raises FileNotWritten.
    """
    with replace_file(output) as file:
        if is_parquet:
            with pq.ParquetWriter(file, schema, compression="zstd") as parquet:
                yield parquet.write_table
        else:
            text = pa.schema(
                [pa.field(field.name, _choose_text(field.type), field.nullable) for field in schema]
            )
            with pa.csv.CSVWriter(file, text) as lines:
                yield lambda rows: lines.write_table(_format_rows(rows, text))


def _choose_text(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _format_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.table({name: _format_column(rows[name]) for name in schema.names}, schema=schema)


def _format_column(column: pa.ChunkedArray) -> Any:
    """Return instants as ISO 8601, and texts that no spreadsheet takes for a formula."""
    if column.type == INSTANT:
        return pc.strftime(
            pc.floor_temporal(column, unit="second").cast(pa.timestamp("s", "UTC")),
            format="%Y-%m-%dT%H:%M:%SZ",
        )
    if not pa.types.is_string(column.type):
        return column
    encoded = column.combine_chunks().dictionary_encode()
    return pa.array(
        [escape_cell(text) for text in encoded.dictionary.to_pylist()], pa.string()
    ).take(encoded.indices)
