"""Reports of usage, by tenant, provider, type, status, model or day: gold's partial sums added up,
read without a JVM.

    UsageQuery ──> read (pyarrow) or Spark ──> ReportPart: sums and histograms ──> UsageReport ──> table, JSON, CSV, page

Percentiles come from merged log histograms, costs are exact decimals. Only files that the log names
are read.
"""

from router.lake.report.lines import (
    DIMENSIONS,
    ReportLine,
    UsageQuery,
    UsageReport,
    parse_days,
    parse_dimensions,
)
from router.lake.report.read import make_report, read_report

__all__ = [
    "DIMENSIONS",
    "ReportLine",
    "UsageQuery",
    "UsageReport",
    "make_report",
    "parse_days",
    "parse_dimensions",
    "read_report",
]
