"""One request, followed through the whole round trip: decided, assigned, acknowledged, answered,
metered. Every message of it is recorded, with the time at which it was seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
from msgspec import Struct

from router.config import Settings
from router.contracts.headers import MESSAGE_ID
from router.contracts.usage import USAGE_SUBJECT as USAGE
from router.core.errors import Unanswered
from router.delivery.wire.connection import Connection
from router.sdk import Answer

# -- Record every message that is published on the subjects of the round trip, with the time at
# which it was seen.


SEEN_WITHIN_S = 30.0  # on a busy machine


class ObservedMessage(Struct, frozen=True):
    """One step of the round trip: `ms` since it began."""

    name: str
    subject: str
    says: str
    ms: float
    body: Mapping[str, Any] = {}


class MessageRecorder:
    """Keeps published messages; `begin` drops the earlier ones and sets the clock to 0.

    A publisher that gets no publish ack sends a message again. The stream does not store that copy,
    and it is not kept here.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[str, float, dict[str, Any]]] = []
        # with subjects; also of earlier messages, as a copy may come after `begin`
        self._message_ids: set[tuple[str, str]] = set()
        self._has_news = asyncio.Event()
        self._start = 0.0

    def begin(self) -> None:
        self._seen.clear()
        self._start = time.perf_counter()

    @property
    def now_ms(self) -> float:
        return (time.perf_counter() - self._start) * 1000

    def on_message(
        self, subject: str, _reply: str, data: bytes, headers: Mapping[str, str] | None
    ) -> None:
        message_id = (headers or {}).get(MESSAGE_ID)
        if (subject, message_id) in self._message_ids:
            return
        if message_id is not None:
            self._message_ids.add((subject, message_id))
        self._seen.append((subject, self.now_ms, orjson.loads(data)))
        self._has_news.set()

    def list_bodies(self, subject: str) -> list[Mapping[str, Any]]:
        return [body for seen, _, body in self._seen if seen == subject]

    async def wait_for(
        self, name: str, subject: str, says: Callable[[Mapping[str, Any]], str]
    ) -> ObservedMessage:
        """Wait for a message on this subject and return the newest. Raises Unanswered if none comes
        within SEEN_WITHIN_S.
        """
        try:
            async with asyncio.timeout(SEEN_WITHIN_S):
                while not (
                    matching := [message for message in self._seen if message[0] == subject]
                ):
                    self._has_news.clear()
                    await self._has_news.wait()
        except TimeoutError:
            raise Unanswered(
                f"{name}: nothing came on {subject} within {SEEN_WITHIN_S:g} s"
            ) from None
        _, ms, body = matching[-1]
        return ObservedMessage(name, subject, says(body), ms, body)


@asynccontextmanager
async def record_messages(
    connection: Connection, subjects: Sequence[str]
) -> AsyncIterator[MessageRecorder]:
    """Record everything that is published on these subjects."""
    witness = MessageRecorder()
    for subject in subjects:
        await connection.subscribe_direct(subject, witness.on_message)
    await connection.flush()
    yield witness


# -- One request, followed through the whole round trip: decided, assigned, acknowledged,
# answered, metered.


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
        self.acknowledgements = settings.acks.subject
        self.results = settings.results.subject
        self.usage = USAGE

    @property
    def all(self) -> tuple[str, ...]:
        return (self.assignments, self.acknowledgements, self.results, self.usage)


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
        await witness.wait_for(
            "acknowledgement", subjects.acknowledgements, lambda body: str(body["status"])
        ),
        await witness.wait_for("result", subjects.results, describe_outcome),
        await witness.wait_for("usage event", subjects.usage, describe_outcome),
    )


def describe_outcome(body: Mapping[str, Any]) -> str:
    """Describe a result, or the usage event made of it."""
    return f"{body['status']} · {body['latency_ms']} ms · cost {body['cost']}"


def check_round_trip(way: Sequence[ObservedMessage], stored_status: str | None) -> Iterator[str]:
    """Yield what was not as expected. `stored_status`: the status stored with the assignment."""
    *_, decision, assignment, acknowledgement, result, usage = way
    if not decision.body.get("ok"):
        yield "the pushed request was refused"
    elif decision.body["decision"] != assignment.body["decision"]:
        yield "the assignment holds another decision than the answer"
    for message in (acknowledgement, result, usage):
        if message.body.get("assignment_id") != assignment.body["assignment_id"]:
            yield f"the {message.name} is another assignment's"
    if (acknowledgement.body["status"], result.body["status"], usage.body["status"]) != (
        "accepted",
        "success",
        "success",
    ):
        yield (
            f"the circle ended with {acknowledgement.body['status']}, {result.body['status']}, "
            f"{usage.body['status']}"
        )
    if (usage.body["cost"], usage.body["request_id"]) != (result.body["cost"], REQUEST_ID):
        yield "the usage event differs from the result"
    if stored_status != "accepted":
        yield f"the assignment's status is {stored_status}, expected accepted"
