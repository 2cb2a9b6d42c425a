"""The whole circle, followed by one request: decided, assigned, acknowledged, done, metered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from router.cli.demo.witness import Sight, Witness
from router.contracts.usage import SUBJECT as USAGE
from router.sdk import Answer

if TYPE_CHECKING:
    from router.config import Settings

REQUEST_ID = "r-circle"
BODY = orjson.dumps(
    {
        "version": "1",
        "tenant_id": "acme",
        "request_id": REQUEST_ID,
        "trace_id": "trace-of-the-circle",
        "task": {"type": "chat", "payload": {"text": "Who are you?"}},
        "push_assignment": True,
    }
)


class Subjects:
    """Where the circle runs, by settings."""

    def __init__(self, settings: Settings) -> None:
        self.decide = settings.decide.subject
        self.assignments = settings.assignment.subjects[0]
        self.acks = settings.acks.subject
        self.results = settings.results.subject
        self.usage = USAGE

    @property
    def all(self) -> tuple[str, ...]:
        return (self.assignments, self.acks, self.results, self.usage)


def request_sight(subjects: Subjects) -> Sight:
    return Sight("request", subjects.decide, "acme · chat · push_assignment", 0.0)


def decision_sight(answer: Answer, ms: float) -> Sight:
    decision = answer.decision
    says = f"{decision.provider_id} · {decision.reason}" if decision is not None else "refused"
    return Sight("decision", "(the answer)", says, ms, orjson.loads(answer.raw))


async def work_sights(witness: Witness, subjects: Subjects) -> Sequence[Sight]:
    """What follows a decision, in its order."""
    return (
        await witness.sees("assignment", subjects.assignments, lambda body: f"deadline {body['options']['deadline_ms']} ms"),
        await witness.sees("acknowledgement", subjects.acks, lambda body: str(body["status"])),
        await witness.sees("result", subjects.results, outcome),
        await witness.sees("usage event", subjects.usage, outcome),
    )


def outcome(body: Mapping[str, Any]) -> str:
    """A result, or the usage event made of it."""
    return f"{body['status']} · {body['latency_ms']} ms · cost {body['cost']}"


def circle_wrong(way: Sequence[Sight], stored_ack: str | None) -> Iterator[str]:
    """What did not go round. `stored_ack`: what stands on the assignment."""
    *_, decision, assignment, ack, result, usage = way
    if not decision.body.get("ok"):
        yield "the pushed request was refused"
    elif decision.body["decision"] != assignment.body["decision"]:
        yield "the assignment holds another decision than the answer"
    for one in (ack, result, usage):
        if one.body.get("assignment_id") != assignment.body["assignment_id"]:
            yield f"the {one.name} is another assignment's"
    if (ack.body["status"], result.body["status"], usage.body["status"]) != ("accepted", "success", "success"):
        yield f"the circle ended with {ack.body['status']}, {result.body['status']}, {usage.body['status']}"
    if (usage.body["cost"], usage.body["request_id"]) != (result.body["cost"], REQUEST_ID):
        yield "the usage event says something else than the result"
    if stored_ack != "accepted":
        yield f"the assignment stands as {stored_ack}, expected accepted"
