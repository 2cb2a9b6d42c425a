"""One request, followed through the whole round trip: decided, assigned, acknowledged, answered,
metered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from router.cli.demo.recorder import MessageRecorder, ObservedMessage
from router.config import Settings
from router.contracts.usage import USAGE_SUBJECT as USAGE
from router.sdk import Answer

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


class DemoSubjects:
    """The subjects of the round trip, by settings."""

    def __init__(self, settings: Settings) -> None:
        self.decide = settings.decide.subject
        self.assignments = settings.assignment.subjects[0]
        self.acks = settings.acks.subject
        self.results = settings.results.subject
        self.usage = USAGE

    @property
    def all(self) -> tuple[str, ...]:
        return (self.assignments, self.acks, self.results, self.usage)


def describe_request(subjects: DemoSubjects) -> ObservedMessage:
    return ObservedMessage("request", subjects.decide, "acme · chat · push_assignment", 0.0)


def describe_decision(answer: Answer, ms: float) -> ObservedMessage:
    decision = answer.decision
    says = f"{decision.provider_id} · {decision.reason}" if decision is not None else "refused"
    return ObservedMessage("decision", "(the answer)", says, ms, orjson.loads(answer.raw))


async def observe_work(
    witness: MessageRecorder, subjects: DemoSubjects
) -> Sequence[ObservedMessage]:
    """Observe what follows a decision, in order."""
    return (
        await witness.wait_for(
            "assignment",
            subjects.assignments,
            lambda body: f"deadline {body['options']['deadline_ms']} ms",
        ),
        await witness.wait_for("acknowledgement", subjects.acks, lambda body: str(body["status"])),
        await witness.wait_for("result", subjects.results, describe_outcome),
        await witness.wait_for("usage event", subjects.usage, describe_outcome),
    )


def describe_outcome(body: Mapping[str, Any]) -> str:
    """Describe a result, or the usage event made of it."""
    return f"{body['status']} · {body['latency_ms']} ms · cost {body['cost']}"


def check_round_trip(way: Sequence[ObservedMessage], stored_ack: str | None) -> Iterator[str]:
    """Yield what was not as expected. `stored_ack`: the status stored with the assignment."""
    *_, decision, assignment, ack, result, usage = way
    if not decision.body.get("ok"):
        yield "the pushed request was refused"
    elif decision.body["decision"] != assignment.body["decision"]:
        yield "the assignment holds another decision than the answer"
    for one in (ack, result, usage):
        if one.body.get("assignment_id") != assignment.body["assignment_id"]:
            yield f"the {one.name} is another assignment's"
    if (ack.body["status"], result.body["status"], usage.body["status"]) != (
        "accepted",
        "success",
        "success",
    ):
        yield (
            f"the circle ended with {ack.body['status']}, {result.body['status']}, "
            f"{usage.body['status']}"
        )
    if (usage.body["cost"], usage.body["request_id"]) != (result.body["cost"], REQUEST_ID):
        yield "the usage event differs from the result"
    if stored_ack != "accepted":
        yield f"the assignment's status is {stored_ack}, expected accepted"
