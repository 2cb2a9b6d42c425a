"""What does a second worker add? The same backlog, and the same live load, for one process and for
two, under a parent each time.

Broker, generator and workers share the machine: on two cores a second worker gets what the broker
leaves. So the columns of what the server and the generator spend on a request stand beside the
rate; the parent, which sees no request, is in `cpu_us`.
"""

from __future__ import annotations

from bench.load import Load
from bench.question import Figure, Question, at_least
from bench.stored import StoredWork

BACKLOG = StoredWork("store.fill", 100_000)
LOAD = Load(warm=8_000, count=40_000, in_flight=256)


QUESTION = Question(
    name="workers",
    asks="What does a second worker add?",
    sides=(
        BACKLOG.side("two workers", "fleet.decide", workers=2),
        BACKLOG.side("one worker", "fleet.decide", workers=1),
        LOAD.side("two, live", "fleet.decide", workers="2"),
        LOAD.side("one, live", "fleet.decide", workers="1"),
    ),
    figures=(
        Figure("rate", "requests/s, backlog", against="one worker", target=at_least(1.3)),
        Figure("server_cpu_us", "µs of the server a request", against="one worker"),
        Figure("rate", "requests/s, live", against="one, live", of="two, live"),
        Figure("p99_ms", "ms, p99, live", against="one, live", of="two, live"),
        Figure(
            "server_cpu_us", "µs of the server a live request", against="one, live", of="two, live"
        ),
        Figure(
            "generator_cpu_us",
            "µs of the generator a live request",
            against="one, live",
            of="two, live",
        ),
    ),
    lasts=(30.0, 25.0),
)
