"""Does an event cost the same when there are ten million of them? The same micro-batches each time,
from the stream to all tables.

As `lake_ingest`: the same load, the same check against the truth, a session that has ingested
before. A micro-batch has a price of its own, so it is as large at every volume. What may grow with
the tables is the search for identities that are known, which reads a column of silver for every
micro-batch: so the last quarter of them is held against the second, too. The driver's Python, which
commits and gets the names of files, is measured by itself.
"""

from __future__ import annotations

from functools import partial

from bench.lake_ingest import ingested
from bench.question import Figure, Measured, Question, Side, at_most, sized

BATCH = 50_000
VOLUMES = {"10 M": 10_000_000, "1 M": 1_000_000, "100 k": 100_000}


async def spark(full: int, scale: float) -> Measured:
    return await ingested("spark", sized(full, scale), batch=sized(BATCH, scale))


QUESTION = Question(
    name="lake_scale",
    asks="Does an event cost the same when there are ten million of them?",
    sides=tuple(Side(name, partial(spark, events)) for name, events in VOLUMES.items()),
    figures=(
        Figure("cpu_us", "CPU µs/event", of="10 M", against="100 k", target=at_most(1.10)),
        Figure("cpu_us", "CPU µs/event", of="1 M", against="100 k"),
        Figure(
            "growth",
            "CPU, last quarter of the micro-batches / second",
            of="10 M",
            target=at_most(1.10),
        ),
        Figure("driver_us", "CPU µs of the driver's Python/event", of="10 M", against="1 M"),
        Figure("driver_growth", "the same, last quarter / second", of="10 M", target=at_most(1.10)),
        Figure(
            "driver_mib",
            "MiB of the driver's Python at the peak",
            of="10 M",
            against="100 k",
            target=at_most(1.10),
        ),
        Figure("broker_us", "µs of the broker an event", of="10 M", against="100 k"),
        Figure("rate", "events/s", of="10 M", against="100 k"),
        Figure("peak_mib", "MiB at the peak", of="10 M", against="100 k"),
    ),
    lasts=(120.0, 1100.0),
    most_rounds=1,  # ten million events, in two hundred micro-batches: a quarter of an hour
    is_long=True,
    needs=("pyspark", "java"),
    unaffected="only reads",
)
