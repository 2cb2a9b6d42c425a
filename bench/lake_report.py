"""How long does a report take? Ten million events: the gold of twenty micro-batches, every
dimension, counts, costs, percentiles.

No JVM: pyarrow reads what the log names. A fresh process each time, its imports included. The
yardstick is DuckDB with the same sums and the same percentiles over the same files.
"""

from __future__ import annotations

import tempfile

from bench.process import figures_of
from bench.question import Broken, Figure, Measured, Question, Side, at_most, sized

EVENTS = 10_000_000


async def pyarrow(scale: float) -> Measured:
    return await _reported("pyarrow", scale)


async def duckdb(scale: float) -> Measured:
    return await _reported("duckdb", scale)


async def _reported(side: str, scale: float) -> Measured:
    events = sized(EVENTS, scale)
    with tempfile.TemporaryDirectory(prefix="router-bench-") as home:
        built = await figures_of("bench.sides.reports", "build", home=home, events=events)
        figures = await figures_of("bench.sides.reports", side, home=home)
    if figures["lines"] != built["rows"]:
        raise Broken(f"{figures['lines']:.0f} lines were reported of {built['rows']:.0f} groups")
    return figures


QUESTION = Question(
    name="lake_report",
    asks="How long does a report over ten million events take?",
    sides=(Side("router", pyarrow), Side("DuckDB", duckdb)),
    figures=(Figure("seconds", "s", target=at_most(3)), Figure("seconds", "s", against="DuckDB")),
    lasts=(4.0, 22.0),
    most_rounds=2,  # the tables are built anew for every side
    needs=("duckdb",),
    unaffected="no server",
)
