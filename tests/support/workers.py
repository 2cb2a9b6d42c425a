"""What workers send, in every form, the assignment that it is about, and in-memory ports that
record it.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson

from router.contracts.assignment import Assignment, assignment_id_of
from router.contracts.decision import Decision
from router.contracts.pb.beamline.worker.v1 import ack_pb2, result_pb2
from router.contracts.usage import UsageEvent
from router.contracts.worker import ReadResult
from router.core.clock import now_ms
from router.core.deferred import Deferred
from router.core.errors import BrokerUnavailable
from router.core.message import Message
from tests.support.requests import a_message

T = TypeVar("T")

RESULTS = "caf.exec.result.v1"
ACKS = "caf.exec.assign.v1.ack"
ASSIGNED = assignment_id_of("acme", "r-1")
REQUESTED_MS = 1_700_000_000_000  # when the request of `an_assignment` was stored
NOW_MS = now_ms()  # the timestamp of a result that a real server stores: it has to lie near
GIVEN: dict[str, Any] = {
    "assignment_id": ASSIGNED,
    "request_id": "r-1",
    "status": "success",
    "provider_id": "openai",
    "latency_ms": 812,
    "cost": 0.0123,
    "trace_id": "t-1",
    "tenant_id": "acme",
    "timestamp": 1_700_000_000_500,
    "error_code": "1001",
    "error_message": "none",
}
DECISION = Decision(
    "openai", "weighted", 50, 800, 0.01, {"policy_id": "default", "policy_version": "1"}
)


def a_body(**fields: Any) -> dict[str, Any]:
    """A whole result; a field set to None is left out."""
    whole = {**GIVEN, "job": {"type": "chat"}, **fields}
    return {name: value for name, value in whole.items() if value is not None}


def a_result(
    headers: Mapping[str, str] | None = None, *, sequence: int = 7, **fields: Any
) -> Message:
    return a_message(a_body(**fields), headers, subject=RESULTS, sequence=sequence)


def in_every_form(**fields: Any) -> dict[str, Message]:
    body = a_body(**fields)
    flat = {name: value for name, value in body.items() if name != "job"}
    data = {
        "json": orjson.dumps(body),
        "protobuf": result_pb2.ExecResult(
            **flat, job=result_pb2.Job(type=body["job"]["type"])
        ).SerializeToString(),
        "envelope": orjson.dumps(
            {
                "version": "1",
                "kind": "exec_result",
                "data": {**flat, "job_type": body["job"]["type"]},
            }
        ),
    }
    return {form: a_message(sent, subject=RESULTS) for form, sent in data.items()}


def an_ack(headers: Mapping[str, str] | None = None, **fields: Any) -> Message:
    return a_message(
        {"assignment_id": ASSIGNED, "status": "accepted", **fields}, headers, subject=ACKS
    )


def a_protobuf_ack(**fields: Any) -> Message:
    sent = ack_pb2.ExecAssignmentAck(**{"assignment_id": ASSIGNED, "status": "accepted", **fields})
    return a_message(sent.SerializeToString(), subject=ACKS)


def an_assignment(**fields: Any) -> Assignment:
    defaults = {
        "assignment_id": ASSIGNED,
        "request_id": "r-1",
        "tenant_id": "acme",
        "provider_id": "openai",
        "job_type": "chat",
    }
    return Assignment(
        **{
            **defaults,
            "deadline_ms": 5000,
            "decision": DECISION,
            "requested_at_ms": REQUESTED_MS,
            "trace_id": "t-1",
            **fields,
        }
    )


class FakeKnownAssignments:
    """Known assignments: some at hand, some only in the bucket, which may be away."""

    def __init__(
        self, *at_hand: Assignment, in_bucket: Assignment | None = None, is_away: bool = False
    ):
        self.at_hand = {assignment.assignment_id: assignment for assignment in at_hand}
        self.in_bucket = in_bucket
        self.is_away = is_away

    def recall(self, assignment_id: str) -> Assignment | None:
        return self.at_hand.get(assignment_id)

    def lookup(self, assignment_id: str, conclude: Callable[[Assignment | None], T]) -> Deferred[T]:
        asked: Deferred[Assignment | None] = Deferred()
        answer = (
            self.in_bucket
            if self.in_bucket is not None and self.in_bucket.assignment_id == assignment_id
            else None
        )
        asked.resolve(BrokerUnavailable("away") if self.is_away else answer)
        return asked.map(conclude)


class RecordedOutcomes:
    """Every port that hears of results and acknowledgements: it writes down what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def on_violation(self, message: Message, reading: ReadResult[Any]) -> None:
        self.told.append(("violated", *reading.violations))

    def on_outcome(self, status: str, provider_id: str, *, is_known: bool) -> None:
        self.told.append(("outcome", status))

    def on_uncorrelated(self) -> None:
        self.told.append(("uncorrelated",))

    def on_forged(self) -> None:
        self.told.append(("forged",))

    def on_duplicate(self, is_conflict: bool) -> None:
        self.told.append(("conflict" if is_conflict else "duplicate",))

    def on_overruled(self, field: str, event: UsageEvent) -> None:
        self.told.append(("overruled", field))

    def on_held(self, event: UsageEvent) -> None:
        self.told.append(("held", event.told_cost))

    def on_corrected(self, event: UsageEvent) -> None:
        self.told.append(("corrected", event.cost))

    def observe(
        self, tenant_id: str, provider_id: str, *, assignment_id: str, **figures: Any
    ) -> None:
        self.told.append(("figures", tenant_id, provider_id, *figures.values()))

    def raise_alert(self, alert: Any) -> None:
        self.told.append(("alert", alert.severity, alert.cause, dict(alert.metadata)))

    def words(self) -> list[str]:
        return [told[0] for told in self.told]


class RecordedAcks(RecordedOutcomes):
    """The same for acknowledgements, where both the meter and the states have `on_acknowledgement`."""

    def on_acknowledgement(self, what: Any, known: Assignment | None = None) -> None:
        self.told.append(
            ("counted", what)
            if isinstance(what, str)
            else ("state", what.status, known is not None)
        )
