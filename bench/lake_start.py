"""How long does an ingest take to start over tables in a bucket that hold ten million events?

The tables are made by an ingest into the bucket of an S3 server on this machine (moto). Then ten
thousand new events come, and another process ingests them: its time until the query runs, and until
the first micro-batch is committed. Spark's own start is in neither.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from bench.broker import a_broker
from bench.lake_ingest import SLOWEST_S
from bench.process import PATIENCE_S, figures_of
from bench.question import Figure, Measured, Question, Side, at_most, sized

HISTORIES = {"10 M": 10_000_000, "100 k": 100_000}
NEW = 10_000


async def start(history: int, scale: float) -> Measured:
    """What the second ingest measured."""
    from tests.support.s3 import an_s3_server

    events = sized(history, scale)
    patience_s = max(PATIENCE_S, events * SLOWEST_S)
    with tempfile.TemporaryDirectory(prefix="router-bench-") as home, an_s3_server() as server:
        async with a_broker() as url:
            place, truth = server.locate("usage"), str(Path(home) / "truth.json")
            await figures_of(
                "bench.sides.ingests",
                "fill_stream",
                patience_s,
                url=url,
                events=events,
                truth=truth,
            )
            await figures_of("bench.sides.ingests", "start", patience_s, url=url, location=place)
            await figures_of(
                "bench.sides.ingests",
                "fill_stream",
                patience_s,
                url=url,
                events=NEW,
                truth=truth,
                seed=2,
            )
            return await figures_of(
                "bench.sides.ingests", "start", patience_s, url=url, location=place
            )


QUESTION = Question(
    name="lake_start",
    asks=(
        "How long does an ingest take to start over tables in a bucket that hold ten million "
        "events?"
    ),
    sides=tuple(Side(name, partial(start, events)) for name, events in HISTORIES.items()),
    figures=(
        Figure("start_s", "s until the query runs", target=at_most(10.0)),
        Figure("start_s", "s until the query runs", of="10 M", against="100 k"),
        Figure("batch_s", "s from there to the first commit", of="10 M", against="100 k"),
        Figure("driver_s", "CPU s of the driver's Python", of="10 M", against="100 k"),
        Figure("driver_mib", "MiB of the driver's Python at the peak", of="10 M", against="100 k"),
    ),
    lasts=(60.0, 420.0),
    most_rounds=1,  # ten million events first
    is_long=True,
    needs=("pyspark", "java", "moto"),
    unaffected="only reads",
)
