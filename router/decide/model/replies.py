"""The reply to a requester: a decision, a refusal, or why the request is invalid
(docs/reference/contracts.md#answers).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from router.contracts.answer import (
    DID_YOU_MEAN,
    build_hint_warning,
    build_skipped_warning,
    failure,
    success,
    success_protobuf,
    success_with,
)
from router.contracts.decision import ASSIGNMENT_SKIPPED, Decision, Refusal, SkippedAssignment
from router.contracts.request import RouteRequest
from router.core.message import Reply
from router.core.outcome import Dead, Fault
from router.decide.model.reading import RequestReading


def reply_to(request: RouteRequest, answer: Decision | Refusal) -> Reply:
    """The answer to a request that could be read; protobuf where it was asked for and there is a
    decision.
    """
    if isinstance(answer, Decision):
        is_plain = not request.hints and not request.wants_protobuf  # nearly always
        data = (
            success(answer, request.answer_id, request.trace_id)
            if is_plain
            else _success(request, answer)
        )
    else:
        data = failure(
            answer.code,
            answer.message,
            _details(answer.details, request.hints),
            request.answer_id,
            request.trace_id,
        )
    return Reply(data, request.trace_id, request.tenant_id)


def _success(request: RouteRequest, decision: Decision) -> bytes:
    if request.wants_protobuf:
        return success_protobuf(decision)
    return success_with(_warnings(request.hints), decision, request.answer_id, request.trace_id)


def reply_without_assignment(
    request: RouteRequest, decision: Decision, skipped: SkippedAssignment
) -> Reply:
    """The answer to a request that was to be pushed, and was only decided. In protobuf the
    decision's metadata say so.
    """
    if request.wants_protobuf:
        data = success_protobuf(
            replace(decision, metadata={**decision.metadata, ASSIGNMENT_SKIPPED: skipped.reason})
        )
    else:
        data = success_with(
            _warnings(request.hints, skipped), decision, request.answer_id, request.trace_id
        )
    return Reply(data, request.trace_id, request.tenant_id)


def _warnings(
    hints: Mapping[str, str], skipped: SkippedAssignment | None = None
) -> list[dict[str, object]]:
    found = [build_hint_warning(name, meant) for name, meant in hints.items()]
    return found if skipped is None else [build_skipped_warning(skipped), *found]


def _details(
    details: Mapping[str, object] | None, hints: Mapping[str, str]
) -> Mapping[str, object] | None:
    return {**(details or {}), DID_YOU_MEAN: dict(hints)} if hints else details


def refuse_request(fault: Fault, reading: RequestReading, code: str) -> Dead:
    """An error reply and a dead letter: these bytes can never be decided here
    (docs/reference/contracts.md#failure-invalid).
    """
    details = {"field": fault.field} if fault.field is not None else None
    data = failure(
        code, fault.message, _details(details, reading.hints), reading.answer_id, reading.trace_id
    )
    return Dead(fault, reply=Reply(data, reading.trace_id, reading.tenant_id))
