"""Reports of usage, by tenant, provider, type, status or day: gold's partial sums added up, read without a JVM.

    Query ──> read (pyarrow) or Spark (a remote warehouse) ──> Part: sums and histograms ──> Report ──> table, JSON, CSV, page

Percentiles come from merged log histograms, costs are exact decimals. Only files that the log names are read.
"""

from router.lake.report.lines import DIMENSIONS, Line, Query, Report, days, dimensions
from router.lake.report.read import read_report, report_of

__all__ = ["DIMENSIONS", "Line", "Query", "Report", "days", "dimensions", "read_report", "report_of"]
