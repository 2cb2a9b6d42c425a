"""How fast is the `jetstream` source alone? Usage events stored first; then all of them read by
Spark, `local[2]`, on the cores that the broker has too: every column and header, added up, nothing
written. The session has read them once before.

One process without Spark shows what the JVM costs. The yardstick is the bare loop of the same
consumer: it counts messages.
"""

from __future__ import annotations

from bench.question import Figure, Question, at_least
from bench.stored import StoredWork, all_of_them, check_nothing

EVENTS = StoredWork("reading.fill", 500_000, check_nothing, least=2_000)


QUESTION = Question(
    name="lake_source",
    asks="How fast is the jetstream source alone?",
    sides=(
        EVENTS.side("in Spark", "reading.spark", all_of_them),
        EVENTS.side("bare consumer", "reading.bare", all_of_them),
        EVENTS.side("in one process", "reading.process", all_of_them),
    ),
    figures=(
        Figure("rate", "events/s", target=at_least(100_000)),
        Figure("rate", "events/s", against="bare consumer"),
        Figure("rate", "events/s", against="in one process"),
    ),
    lasts=(25.0, 75.0),
    # a minute and a half: the JVM starts anew, and half a million events are their own repetition
    most_rounds=1,
    needs=("pyspark", "java"),
    unaffected="only reads",
)
