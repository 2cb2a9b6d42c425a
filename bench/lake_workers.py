"""How much faster is an ingest on two workers than on one? A standalone Spark cluster on this
machine, of workers of one core each.

As `lake_ingest`: the same load, the same check against the truth, a session that has ingested
before. The driver and the broker run on the same cores as the workers, so the machine needs at
least four to show what a second worker brings by itself.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from bench.lake_ingest import ingested
from bench.question import Figure, Measured, Question, Side, at_least, sized

EVENTS = 1_000_000


async def spark(workers: int, scale: float) -> Measured:
    from tests.support.spark_cluster import SparkCluster

    with (
        tempfile.TemporaryDirectory(prefix="router-bench-") as home,
        SparkCluster(Path(home), workers) as cluster,
    ):
        return await ingested("spark", sized(EVENTS, scale), master=cluster.master)


QUESTION = Question(
    name="lake_workers",
    asks="How much faster is an ingest on two workers of one core than on one?",
    sides=(Side("two workers", partial(spark, 2)), Side("one worker", partial(spark, 1))),
    figures=(
        Figure("rate", "events/s", against="one worker", target=at_least(1.6)),
        Figure("cpu_us", "CPU µs of the driver's processes/event", against="one worker"),
        Figure("broker_us", "µs of the broker an event", against="one worker"),
    ),
    lasts=(60.0, 120.0),
    most_rounds=3,
    is_long=True,
    needs=("pyspark", "java"),
    unaffected="only reads",
)
