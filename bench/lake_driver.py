"""What does a micro-batch cost the driver, when there is one million of events in the tables, or
thirty?

Without Spark and the broker: the driver's plan, its commits in eight tables, and the cut. A
micro-batch is of 50 000 events, and their number makes no difference here: the driver gets names of
files. What does make one is the number of files in the tables, because `deltalake` reads the list
of them for each commit; so the tables are compacted each day, twenty micro-batches, or never.
"""

from __future__ import annotations

import tempfile
from functools import partial

from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, at_most, sized

COMPACTED = {"30 M": 30_000_000, "10 M": 10_000_000, "1 M": 1_000_000}
NEVER = {"30 M, never": 30_000_000, "10 M, never": 10_000_000}
PATIENCE_S = 580.0


async def driver(full: int, is_compacted: bool, scale: float) -> Measured:
    with tempfile.TemporaryDirectory(prefix="router-bench-") as home:
        history = sized(full, scale)
        return await figures_of(
            "bench.sides.commits",
            "commit",
            PATIENCE_S,
            home=home,
            history=history,
            is_compacted=is_compacted,
        )


QUESTION = Question(
    name="lake_driver",
    asks="What does a micro-batch cost the driver of an ingest?",
    sides=tuple(
        Side(name, partial(driver, many, name not in NEVER))
        for name, many in {**COMPACTED, **NEVER}.items()
    ),
    figures=(
        Figure(
            "cpu_ms",
            "CPU ms of the driver/micro-batch",
            of="30 M",
            against="1 M",
            target=at_most(1.05),
        ),
        Figure(
            "cpu_ms",
            "CPU ms of the driver/micro-batch",
            of="10 M",
            against="1 M",
            target=at_most(1.05),
        ),
        Figure("cpu_ms", "CPU ms of the driver/micro-batch", of="30 M, never", against="1 M"),
        Figure("cpu_ms", "CPU ms of the driver/micro-batch", of="10 M, never", against="1 M"),
        Figure("peak_mib", "MiB at the peak", of="30 M", against="1 M", target=at_most(1.10)),
        Figure("files", "files in the tables", of="30 M", against="1 M"),
        Figure("files", "files in the tables", of="30 M, never", against="1 M"),
    ),
    lasts=(15.0, 240.0),
    most_rounds=3,  # hundreds of micro-batches come before the measured ones
    is_long=True,
    needs=("deltalake",),
    unaffected="no server",
)
