"""And ten million? As `decide_volume`: what a decision costs beside ten thousand in another router,
and memory on the way.
"""

from __future__ import annotations

from bench.decide_volume import build_side
from bench.question import Figure, Question, at_most

QUESTION = Question(
    name="decide_ten_million",
    asks="Does a request cost the same when ten million come?",
    sides=(build_side("10 M", 10_000_000), build_side("10 k", 10_000)),
    figures=(
        Figure("cpu_us", "CPU µs/decision", against="10 k", target=at_most(1.10)),
        Figure("cpu_drift", "CPU per decision, last tenth / first", target=at_most(1.10)),
        Figure("growth", "resident memory, at the end / at three quarters", target=at_most(1.05)),
        Figure("rss_10_mib", "MiB resident at 10 %"),
        Figure("rss_100_mib", "MiB resident at the end"),
    ),
    lasts=(5.0, 800.0),
    most_rounds=1,  # a quarter of an hour each
    is_long=True,
)
