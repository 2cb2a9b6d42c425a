"""How fast is a backlog decided? Requests are stored first; then from the first pull to the last
acknowledgement.

JSON with four headers, a policy with weights and sticky sessions, metrics on, answers to the reply
subject.
"""

from __future__ import annotations

from bench.question import Figure, Question, at_least
from bench.stored import StoredWork, as_subscriber, from_first

REQUESTS_OF_FASTSTREAM = 10_000  # its rate does not depend on it
REQUESTS_FETCHED = 30_000

REQUESTS = StoredWork("store.fill", 100_000)


QUESTION = Question(
    name="decide_backlog",
    asks="How fast is a backlog decided?",
    sides=(
        REQUESTS.side("router", "router.decide", from_first),
        REQUESTS.side("bare nats-py", "bare.backlog", as_subscriber),
        REQUESTS.side("nats-py fetch", "fetch.backlog", as_subscriber, full=REQUESTS_FETCHED),
        REQUESTS.side("FastStream", "stream.typed", as_subscriber, full=REQUESTS_OF_FASTSTREAM),
        REQUESTS.side(
            "FastStream, untyped", "stream.untyped", as_subscriber, full=REQUESTS_OF_FASTSTREAM
        ),
    ),
    figures=(
        Figure("rate", "requests/s", against="bare nats-py", target=at_least(0.6)),
        Figure("rate", "requests/s", against="nats-py fetch"),
        Figure("rate", "requests/s", against="FastStream", target=at_least(5)),
        Figure("rate", "requests/s", against="FastStream, untyped"),
    ),
    lasts=(8.0, 26.0),
    needs=("faststream",),
)
