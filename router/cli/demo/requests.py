"""The demo's requests and the expected answers: the few requests that a new user would try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

from router.contracts.decision import INVALID_REQUEST, POLICY_NOT_FOUND
from router.contracts.pb.beamline.flow.v1.flow_pb2 import Message, RouteRequest
from router.core.outcome import VALIDATION_FAILED
from router.operate.dead_letters import DeadLetter
from router.sdk import Answer

Counters = Mapping[str, float]  # a series as Prometheus writes it -> its value


class DemoRequest(Struct, frozen=True):
    """One request. `expects` is a decision's reason or an error's code; `like`: same provider as
    the request of that title.
    """

    title: str
    says: str
    body: bytes
    expects: str
    like: str | None = None
    is_replay: bool = False  # of `like`: exactly the same answer


class DemoCall(Struct, frozen=True):
    """A request, its answer, and how long it took, milliseconds."""

    step: DemoRequest
    answer: Answer
    ms: float

    @property
    def verdict(self) -> str:
        """The reason of the decision, or the code of the error."""
        answer = self.answer
        if answer.decision is not None:
            return answer.decision.reason
        return answer.error.code if answer.error is not None else ""

    @property
    def provider(self) -> str | None:
        return self.answer.decision.provider_id if self.answer.decision is not None else None


def _make_request(
    title: str,
    says: str,
    body: Mapping[str, Any],
    expects: str,
    *,
    like: str | None = None,
    is_replay: bool = False,
) -> DemoRequest:
    return DemoRequest(title, says, orjson.dumps(body), expects, like, is_replay)


def _make_protobuf() -> bytes:
    message = Message(
        message_id="m-4", tenant_id="acme", message_type="chat", payload=b"Hello from protobuf"
    )
    return RouteRequest(message=message, policy_id="fast").SerializeToString()


_CHAT = {"tenant_id": "acme", "message_type": "chat", "payload": "Hello, router"}
_TASK = {
    "version": "1",
    "tenant_id": "acme",
    "request_id": "r-2",
    "task": {"type": "chat", "payload": {"text": "Hello"}},
}
_FLAT = {
    "tenant_id": "globex",
    "message_type": "summary",
    "payload": "a long text",
    "message_id": "m-3",
}
_STICKY = {"message": _CHAT, "context": {"user_id": "u-42"}}

DEMO_STEPS = (
    _make_request("message", "acme · chat", {"message": _CHAT}, "weighted"),
    _make_request("task", "acme · chat · request r-2", _TASK, "weighted"),
    _make_request("flat", "globex · summary", _FLAT, "weighted"),
    DemoRequest("protobuf", "acme · chat · policy fast", _make_protobuf(), "weighted"),
    _make_request("session", "acme · chat · user u-42", _STICKY, "weighted"),
    _make_request("session, again", "acme · chat · user u-42", _STICKY, "sticky", like="session"),
    _make_request(
        "task, again", "acme · chat · request r-2", _TASK, "weighted", like="task", is_replay=True
    ),
    _make_request(
        "no such policy",
        "acme · chat · policy nope",
        {"message": _CHAT, "policy_id": "nope"},
        POLICY_NOT_FOUND,
    ),
)
NO_TENANT_REQUEST = _make_request(
    "no tenant",
    "chat, without a tenant",
    {"message": {"message_type": "chat", "payload": "Who am I?"}},
    INVALID_REQUEST,
)

# The least values of the counters, over all labels.
LEAST_COUNTED = {
    "router_decisions_total": len(DEMO_STEPS) - 1,  # a replay is no decision
    "router_idempotent_replays_total": 1,
    "router_assignments_published_total": 1,
    "router_acks_total": 1,
    "router_results_total": 2,  # the worker's, and the repaired one
    "router_usage_published_total": 2,
    "router_dlq_total": 2,
}


def check_answers(asked: Sequence[DemoCall]) -> Iterator[str]:
    """Yield the answers that differ from what was expected."""
    by_title = {call.step.title: call for call in asked}
    for call in asked:
        first = by_title.get(call.step.like or "")
        if call.verdict != call.step.expects:
            yield f"{call.step.title}: {call.verdict}, expected {call.step.expects}"
        elif first is not None and call.provider != first.provider:
            yield f"{call.step.title}: went to {call.provider}, before to {first.provider}"
        elif first is not None and call.step.is_replay and call.answer.raw != first.answer.raw:
            yield f"{call.step.title}: the same request was answered differently"


def check_dead_letter(dead_letter: DeadLetter | None) -> Iterator[str]:
    if dead_letter is None:
        yield "the malformed request left no dead letter"
    elif (dead_letter.reason, dead_letter.field, dead_letter.payload) != (
        VALIDATION_FAILED,
        "message.tenant_id",
        NO_TENANT_REQUEST.body,
    ):
        yield (
            f"the dead letter says {dead_letter.reason} at {dead_letter.field}, "
            "or holds another payload"
        )


def check_counters(counted: Counters) -> Iterator[str]:
    for name, least in LEAST_COUNTED.items():
        total = sum(value for series, value in counted.items() if series.partition("{")[0] == name)
        if total < least:
            yield f"{name} is {total:g}, expected at least {least}"
