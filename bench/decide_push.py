"""How fast is a backlog of pushed requests decided: each assignment stored in its bucket and
published, the request acknowledged?

The yardstick stores the same two messages with the same conditions, replies and acknowledges, and
decides nothing.
"""

from __future__ import annotations

from bench.broker import Counts, check_counts, decide_subscription, nothing_is_left, settings
from bench.question import Figure, Question, at_least, at_most
from bench.stored import StoredWork, from_tenth
from router.delivery.wire.api import JetStream

PUSHED = {"is_pushed": True}


def as_pusher(url: str, count: int) -> dict[str, object]:
    """What the yardstick, which knows nothing of settings, must know."""
    config = settings(url)
    return {
        "first": count // 10,
        "last": count,
        "decide": decide_subscription(url),
        "bucket": config.buckets.assignments_known.name,
        "subject": config.assignment.subjects[0],
    }


async def check_assignments(url: str, count: int) -> None:
    """Broken unless every request was acknowledged, and has a record and an assignment."""
    await nothing_is_left(url, count)
    config = settings(url)
    streams = (f"KV_{config.buckets.assignments_known.name}", config.streams.assignments.name)

    async def find(jetstream: JetStream) -> Counts:
        return {name: (await jetstream.stream(name) or {})["state"]["last_seq"] for name in streams}

    await check_counts(url, find, dict.fromkeys(streams, count))


REQUESTS = StoredWork("store.fill", 20_000, check=check_assignments)

QUESTION = Question(
    name="decide_push",
    asks="How fast is a backlog of pushed requests decided, until every assignment is stored?",
    sides=(
        REQUESTS.side("router", "router.decide", from_tenth, fill=PUSHED),
        REQUESTS.side("bare nats-py", "bare_push.backlog", as_pusher, fill=PUSHED),
    ),
    figures=(
        Figure("rate", "requests/s", against="bare nats-py", target=at_least(0.5)),
        Figure("cpu_us", "CPU µs/request", against="bare nats-py", target=at_most(2)),
    ),
    lasts=(8.0, 26.0),
)
