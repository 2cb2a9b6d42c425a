"""Does a request cost the same whether ten thousand come or a million? CPU and memory by volume,
each in a router of its own.

Every request is new and there are more sessions than are remembered, so each bounded cache fills up
and starts to forget: that takes some 700 000 requests, so memory is held against itself within the
million, and CPU across the volumes.
"""

from __future__ import annotations

from bench.question import Figure, Question, Side, at_most
from bench.stored import StoredWork, all_of_them

VOLUMES = {"10 k": 10_000, "100 k": 100_000, "1 M": 1_000_000}
USERS = 200_000
UNLIMITED = {"streams.decide.max_bytes": -1}  # ten million requests are some 5 GB

REQUESTS = StoredWork("store.fill", 1_000_000, given=UNLIMITED, patience_s=3600.0)


def build_side(name: str, full: int) -> Side:
    return REQUESTS.side(
        name, "endurance.decide", all_of_them, full=full, fill={"users": USERS}, given=UNLIMITED
    )


QUESTION = Question(
    name="decide_volume",
    asks="Does a request cost the same whether ten thousand come or a million?",
    sides=tuple(build_side(name, count) for name, count in VOLUMES.items()),
    figures=(
        Figure("cpu_us", "CPU µs/decision", of="1 M", against="10 k", target=at_most(1.10)),
        Figure("cpu_us", "CPU µs/decision", of="100 k", against="10 k"),
        Figure("cpu_drift", "CPU per decision, last tenth / first", of="1 M", target=at_most(1.10)),
        # The tables under the caches of 100 000 take their last size some 700 000 requests in:
        # until then it is warm-up.
        Figure(
            "growth",
            "resident memory, at the end / at three quarters",
            of="1 M",
            target=at_most(1.05),
        ),
        Figure("rss_100_mib", "MiB resident at the end", of="10 k"),
        Figure("rss_100_mib", "MiB resident at the end", of="100 k"),
        Figure("rss_75_mib", "MiB resident at 75 %", of="1 M"),
        Figure("rss_100_mib", "MiB resident at the end", of="1 M"),
    ),
    lasts=(7.0, 82.0),
    # a round takes a minute and a half, and the million is its own repetition: a hundred slices
    most_rounds=3,
)
