"""Does an event cost the same when there are ten million of them? Twenty micro-batches, from the stream to all tables.

As `lake_ingest`: the same load, the same check against the truth, a session that has ingested before. What may grow with the
tables is the search for identities that are known, which reads a column of all of silver for every micro-batch: so the last
quarter of the micro-batches is held against the second, in processor time.
"""

from __future__ import annotations

from bench.lake_ingest import ingested
from bench.question import Figure, Measured, Question, Side, at_most, sized

EVENTS, BATCHES = 10_000_000, 20


async def spark(scale: float) -> Measured:
    events = sized(EVENTS, scale)
    return await ingested("spark", events, batch=events // BATCHES)


QUESTION = Question(
    name="lake_scale",
    asks="Does an event cost the same when there are ten million of them?",
    sides=(Side("router", spark),),
    figures=(
        Figure("growth", "last quarter : second", target=at_most(1.2)),
        Figure("broker_us", "µs of the broker an event"),
        Figure("rate", "events/s"),
    ),
    lasts=(30.0, 800.0),
    most_rounds=1,  # ten million events, in twenty micro-batches: a quarter of an hour
    is_long=True,
    needs=("pyspark",),
)
