"""What does a micro-batch cost the driver, when there is one million of events in the tables, or ten?

Without Spark and the broker: the driver's plan, its commits in eight tables, and the cut. A micro-batch is of 50 000 events, and their
number makes no difference here: the driver gets names of files.
"""

from __future__ import annotations

import tempfile
from functools import partial

from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, at_most, sized

VOLUMES = {"10 M": 10_000_000, "1 M": 1_000_000}
PATIENCE_S = 580.0


async def driver(full: int, scale: float) -> Measured:
    with tempfile.TemporaryDirectory(prefix="router-bench-") as home:
        return await figures_of("bench.sides.commits", "commit", PATIENCE_S, home=home, history=sized(full, scale))


QUESTION = Question(
    name="lake_driver",
    asks="What does a micro-batch cost the driver of an ingest?",
    sides=tuple(Side(name, partial(driver, events)) for name, events in VOLUMES.items()),
    figures=(
        Figure("cpu_ms", "CPU ms of the driver/micro-batch", of="10 M", against="1 M"),
        Figure("peak_mib", "MiB at the peak", of="10 M", against="1 M", target=at_most(1.10)),
    ),
    lasts=(10.0, 60.0),
    most_rounds=1,  # two hundred micro-batches come before the measured ones
    is_long=True,
    needs=("deltalake",),
)
