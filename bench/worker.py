"""How fast does a worker of the SDK work a backlog off: each assignment acknowledged, its result
stored before it is settled?

The worker's function returns at once, so what is measured is the way. The yardstick publishes the
same two messages of each assignment, waits for the publish ack of the result by callback, settles,
and checks, times and limits nothing.
"""

from __future__ import annotations

from bench.broker import SETTLED, Counts, check_counts, count_unsettled, settings
from bench.question import Figure, Question, at_least, at_most
from bench.sides.router import TAKING_ACKS
from bench.stored import StoredWork
from router.delivery.wire.api import JetStream
from router.sdk.worker import DURABLE


def from_tenth(url: str, count: int) -> dict[str, object]:
    """What both sides must know; the durable is the one that a worker makes for itself."""
    config = settings(url)
    subjects = {
        "assignments": config.assignment.subjects[0],
        "results": config.results.subject,
        "acks": config.acks.subject,
    }
    return {
        "first": count // 10,
        "last": count,
        "stream": config.streams.assignments.name,
        "durable": DURABLE,
        "subjects": subjects,
    }


async def check_results(url: str, count: int) -> None:
    """Broken unless every assignment is settled, has its result, and was acknowledged."""
    config = settings(url)
    streams = (config.streams.results.name, config.streams.acks.name)

    async def find(jetstream: JetStream) -> Counts:
        durable = await jetstream.consumer(config.streams.assignments.name, DURABLE) or {}
        stored = {
            name: (await jetstream.stream(name) or {})["state"]["last_seq"] for name in streams
        }
        return {**count_unsettled(durable), **stored}

    await check_counts(url, find, {**SETTLED, **dict.fromkeys(streams, count)})


ASSIGNMENTS = StoredWork("store.fill_assignments", 20_000, check_results, TAKING_ACKS)

QUESTION = Question(
    name="worker",
    asks=(
        "How fast does a worker of the SDK work a backlog of assignments off, until every "
        "result is stored?"
    ),
    sides=(
        ASSIGNMENTS.side("router", "working.backlog", from_tenth),
        ASSIGNMENTS.side("bare nats-py", "bare_worker.backlog", from_tenth),
    ),
    figures=(
        Figure("rate", "assignments/s", against="bare nats-py", target=at_least(0.5)),
        Figure("cpu_us", "CPU µs/assignment", against="bare nats-py", target=at_most(1)),
    ),
    lasts=(6.0, 20.0),
)
