"""Does a larger micro-batch cost the driver of an ingest more? The same three million events in
sixty micro-batches, in six, in one.

The driver's Python plans and commits; it gets names of files from the tasks, and no events. As
`lake_ingest`: the same load, the same check against the truth, a session that has ingested before.
"""

from __future__ import annotations

from functools import partial

from bench.lake_ingest import ingested
from bench.question import Figure, Measured, Question, Side, at_most, sized

EVENTS = 3_000_000
BATCHES = {"3 M": 3_000_000, "500 k": 500_000, "50 k": 50_000}


async def spark(batch: int, scale: float) -> Measured:
    return await ingested("spark", sized(EVENTS, scale), batch=sized(batch, scale))


QUESTION = Question(
    name="lake_batches",
    asks="Does a larger micro-batch cost the driver of an ingest more?",
    sides=tuple(Side(name, partial(spark, events)) for name, events in BATCHES.items()),
    figures=(
        Figure(
            "driver_mib",
            "MiB of the driver's Python at the peak",
            of="3 M",
            against="50 k",
            target=at_most(1.05),
        ),
        Figure(
            "driver_mib",
            "MiB of the driver's Python at the peak",
            of="500 k",
            against="50 k",
            target=at_most(1.05),
        ),
        Figure(
            "driver_batch_ms",
            "CPU ms of the driver's Python/micro-batch",
            of="3 M",
            against="50 k",
            target=at_most(1.05),
        ),
        Figure(
            "driver_batch_ms",
            "CPU ms of the driver's Python/micro-batch",
            of="500 k",
            against="50 k",
            target=at_most(1.05),
        ),
        Figure("cpu_us", "CPU µs of all processes/event", of="3 M", against="50 k"),
        Figure("rate", "events/s", of="3 M", against="50 k"),
        Figure("peak_mib", "MiB of all processes at the peak", of="3 M", against="50 k"),
    ),
    lasts=(120.0, 420.0),
    most_rounds=1,  # nine million events
    is_long=True,
    needs=("pyspark", "java"),
    unaffected="only reads",
)
