"""What a reader says of a message, field by field; and the reader of each message of the contract.

A reader stops at the first field that is wrong. Here each such field is replaced by a legal value,
and the reader reads again, until it takes the message or says the same twice. So a message with
four mistakes has four lines.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import orjson
from msgspec import Struct

from router.config import Settings
from router.contracts import extension, provider_request
from router.contracts.acknowledgement import read_acknowledgement
from router.contracts.codec import read_object
from router.contracts.decision import NO_HINTS
from router.contracts.envelope import read_envelope
from router.contracts.exec_assignment import read_exec_assignment
from router.contracts.header_rules import Violation, find_rule
from router.contracts.heartbeat import read_heartbeat
from router.contracts.ingress import read_body_of, read_ingress
from router.contracts.malformed import STAGE_SCHEMA, Malformed, missing_field
from router.contracts.provider import read_response
from router.contracts.provider_call import read_answer as read_provider_answer
from router.contracts.provider_chunk import read_chunk
from router.contracts.result import read_result
from router.contracts.shapes.message_shape import find_unknown, list_fields, list_required
from router.contracts.unread_report import read_unread_report
from router.contracts.worker import WorkerMessageLimits
from router.core.clock import now_ms
from router.core.errors import RouterError
from router.core.message import Message
from router.core.outcome import Fault
from router.decide.model import RequestLimits
from router.decide.model.read import read as read_request
from router.lake.tables.body import ANY_BOUNDS, find_reason, read_event
from router.operate.audit.audit_event import read_audit_event
from router.operate.catalogue import MessageShape
from router.operate.violations.events import read_violation
from router.sdk.client import read_answer
from router.serve.decide_subscription import build_request_limits
from router.serve.subscriptions import worker_limits

# -- The reader of each message of the contract, and what it says of bytes: nothing, or what is
# wrong with them.
#
# decide, result, ack     the router's readers, with the limits of the settings; a Fault names the
#                         field
# assignment, answer      the readers of the SDK, as a worker and a client have them
# usage                   the lake's reader


class ReaderVerdict(Struct, frozen=True):
    """`fault` is None where the reader takes the message. `hints`: unknown fields, and what was
    probably meant.
    """

    fault: Fault | None
    violations: tuple[Violation, ...] = ()
    hints: Mapping[str, str] = NO_HINTS


Reader = Callable[[bytes, Mapping[str, str]], ReaderVerdict]


def build_readers(settings: Settings, shapes: Mapping[str, MessageShape]) -> Mapping[str, Reader]:
    """The reader of each shape, with these settings."""
    readers = {**_build_subscription_readers(settings), **_build_raising_readers(settings)}
    return {
        name: readers.get(name) or _build_declared_reader(shape) for name, shape in shapes.items()
    }


def _build_subscription_readers(settings: Settings) -> Mapping[str, Reader]:
    limits = build_request_limits(settings)
    return {
        "decide": lambda data, headers: _read_decide(_build_message(data, headers), limits),
        "result": _build_worker_reader(read_result, worker_limits(settings)),
        "ack": _build_worker_reader(read_acknowledgement, worker_limits(settings)),
        "heartbeat": _read_heartbeat,
        "usage": lambda data, _: _read_usage(data),
    }


def _build_raising_readers(settings: Settings) -> Mapping[str, Reader]:
    bounds = (settings.max_payload_bytes, settings.max_depth)
    limits = worker_limits(settings)
    readers: dict[str, Callable[[bytes, Mapping[str, str]], object]] = {
        "assignment": lambda data, _: read_exec_assignment(data),
        "answer": lambda data, _: read_answer(data),
        "extension-request": lambda data, _: extension.read_request(data),
        "extension-message": lambda data, _: extension.read_processor_answer(data),
        "extension-verdict": lambda data, _: extension.read_validator_answer(data),
        "unread-report": lambda data, _: read_unread_report(data),
        "provider-request": lambda data, headers: provider_request.read_request(
            data, headers, *bounds
        ),
        "provider-response": lambda data, _: read_response(data),
        "chunk": lambda data, _: read_chunk(data),
        "provider-answer": lambda data, _: read_provider_answer(data, _find_provider(data)),
        "ingress": lambda data, headers: _read_ingress(data, headers, limits),
        "envelope": lambda data, _: read_envelope(data),
        "violation": lambda data, _: read_violation(data),
        "audit": lambda data, _: read_audit_event(data),
    }
    return {name: _build_raising_reader(read) for name, read in readers.items()}


def _read_decide(message: Message, limits: RequestLimits) -> ReaderVerdict:
    reading = read_request(message, limits)
    if isinstance(reading.asked, Fault):
        return ReaderVerdict(reading.asked, reading.violations, reading.hints)
    return ReaderVerdict(None, reading.violations, reading.asked.hints)


def _build_worker_reader(
    read: Callable[[Message, WorkerMessageLimits], Any], limits: WorkerMessageLimits
) -> Reader:
    def read_verdict(data: bytes, headers: Mapping[str, str]) -> ReaderVerdict:
        result = read(_build_message(data, headers), limits)
        return ReaderVerdict(
            result.found if isinstance(result.found, Fault) else None, result.violations
        )

    return read_verdict


def _read_heartbeat(data: bytes, headers: Mapping[str, str]) -> ReaderVerdict:
    read = read_heartbeat(data, now_ms(), headers)
    return ReaderVerdict(read if isinstance(read, Fault) else None)


def _build_raising_reader(read: Callable[[bytes, Mapping[str, str]], object]) -> Reader:
    def read_verdict(data: bytes, headers: Mapping[str, str]) -> ReaderVerdict:
        try:
            read(data, headers)
        except RouterError as exc:
            return ReaderVerdict(Fault(exc.code, str(exc), getattr(exc, "field", None)))
        return ReaderVerdict(None)

    return read_verdict


def _read_ingress(data: bytes, headers: Mapping[str, str], limits: WorkerMessageLimits) -> None:
    """What the service would store in the decide stream must be readable there."""
    request = read_ingress(read_body_of(data, limits), headers)
    asked = read_request(_build_message(request.body, request.headers)).asked
    if isinstance(asked, Fault):
        name = (asked.field or "").removeprefix("message.")
        raise Malformed(asked.code, asked.message, asked.stage or STAGE_SCHEMA, name or None)


def _read_usage(data: bytes) -> ReaderVerdict:
    stored_ms = now_ms()
    if read_event(data, stored_ms, ANY_BOUNDS) is not None:
        return ReaderVerdict(None)
    reason, _, name = find_reason(data, stored_ms, ANY_BOUNDS).partition(":")
    return ReaderVerdict(Fault(reason, f"The lake keeps it apart as {reason}", name or None))


def _build_declared_reader(shape: MessageShape) -> Reader:
    """Only the fields that the schema requires."""

    def read_verdict(data: bytes, _: Mapping[str, str]) -> ReaderVerdict:
        try:
            message = read_object(data)
        except Malformed as refused:
            return ReaderVerdict(refused.as_fault())
        name = next((name for name in list_required(shape.body) if name not in message), None)
        return ReaderVerdict(None if name is None else missing_field(name, name).as_fault())

    return read_verdict


def _find_provider(data: bytes) -> str:
    """An answer names its own provider, or none."""
    try:
        named = read_object(data).get("provider_id")
    except Malformed:
        return ""
    return named if isinstance(named, str) else ""


def _build_message(data: bytes, headers: Mapping[str, str]) -> Message:
    """The message as if it had been stored now."""
    stored_ns = now_ms() * 1_000_000
    return Message("", data, headers, "", "", 1, stored_ns, 1, "")


# -- What a reader says of a message, field by field.


READ, REFUSED, IGNORED, BROKEN = "read", "refused", "ignored", "violation"
MAX_FAULTS = 32
MAX_LINES = 1_000  # of fields
WHOLE = "*"  # all of the message


class FieldLine(Struct, frozen=True):
    """One line: a field or a header (or WHOLE), the verdict, and why."""

    field: str
    verdict: str
    why: str = ""


class FieldReport(Struct, frozen=True):
    """`is_readable`: whether the reader takes the message as it is."""

    is_readable: bool
    lines: tuple[FieldLine, ...]


def report_fields(
    shape: MessageShape,
    reader: Reader,
    data: bytes,
    headers: Mapping[str, str],
    message: dict[str, Any] | None,
) -> FieldReport:
    """`message`: `data` as `parse` shows it."""
    verdict = reader(data, headers)
    faults = (
        {}
        if verdict.fault is None
        else _find_faults(shape, reader, message, headers, verdict.fault)
    )
    lines = [
        FieldLine(place, REFUSED, f"{fault.message} ({fault.code})")
        for place, fault in faults.items()
    ]
    lines += [
        FieldLine(violation[0], BROKEN, _describe(violation)) for violation in verdict.violations
    ]
    if message is not None:
        lines += _cut(_list_other_fields(shape, message, faults, verdict), len(message))
    return FieldReport(verdict.fault is None, tuple(lines))


def parse(data: bytes, max_bytes: int, max_depth: int) -> dict[str, Any] | None:
    """The message as JSON shows it; None for protobuf, for what is no object, and for what is
    larger or deeper than may be read.
    """
    try:
        return read_object(data, max_bytes, max_depth)
    except Malformed:
        return None


def _cut(lines: Iterator[FieldLine], fields: int) -> Iterator[FieldLine]:
    yield from islice(lines, MAX_LINES)
    if next(lines, None) is not None:
        yield FieldLine("…", IGNORED, f"the message has {fields} fields; {MAX_LINES} are shown")


def _describe(violation: Violation) -> str:
    rule = find_rule(violation)
    return (
        f"the header contract's rule `{rule.name}` is broken: {rule.says} (`router explain "
        f"{rule.code}`)"
    )


def _find_faults(
    shape: MessageShape,
    reader: Reader,
    message: dict[str, Any] | None,
    headers: Mapping[str, str],
    first: Fault,
) -> dict[str, Fault]:
    """Every fault that the reader finds, one after the other, by its place in the message."""
    legal = _list_legal_values(shape)
    repaired, fault, faults = copy.deepcopy(message), first, dict[str, Fault]()
    for _ in range(MAX_FAULTS):
        place = _locate(fault.field, message, shape)
        if place in faults:
            break
        faults[place] = fault
        name = place.rpartition(".")[2]
        if repaired is None or name not in legal:
            break
        _replace(repaired, place, legal[name])
        following = reader(orjson.dumps(repaired), headers).fault
        if following is None:
            break
        fault = following
    return faults


def _locate(field: str | None, message: Mapping[str, Any] | None, shape: MessageShape) -> str:
    """Where a field of a fault stands: of an enveloped message in `data`, unless it stands beside
    it.
    """
    if field is None or message is None:
        return WHOLE
    is_enveloped = isinstance(message.get("data"), dict) and "data" in list_fields(shape.body)
    return f"data.{field}" if is_enveloped and field.partition(".")[0] not in message else field


def _list_legal_values(shape: MessageShape) -> dict[str, Any]:
    """A legal value for each field of the examples, by its last name."""
    values: dict[str, Any] = {}
    for example in shape.examples:
        _add_values(values, example)
    return values


def _add_values(values: dict[str, Any], part: Mapping[str, Any]) -> None:
    for name, value in part.items():
        values.setdefault(name, value)
        if isinstance(value, Mapping):
            _add_values(values, value)


def _replace(message: dict[str, Any], place: str, value: Any) -> None:
    """Put a legal value where the reader looked."""
    *parents, name = place.split(".")
    part = message
    for parent in parents:
        inner = part.get(parent)
        part[parent] = part = inner if isinstance(inner, dict) else {}
    part[name] = value


def _list_other_fields(
    shape: MessageShape,
    message: dict[str, Any],
    faults: Mapping[str, Fault],
    verdict: ReaderVerdict,
) -> Iterator[FieldLine]:
    """The fields that the reader does not complain about."""
    fields = list_fields(shape.body)
    unknown = set(find_unknown(message, fields))
    for place in _walk(message, fields):
        if place in faults:
            continue
        if place in unknown:
            meant = verdict.hints.get(place)
            yield FieldLine(
                place,
                IGNORED,
                f"no field of this message: did you mean {meant}?"
                if meant
                else "no field of this message",
            )
        else:
            yield FieldLine(place, READ)


def _walk(
    message: Mapping[str, Any], fields: Mapping[str, object], inside: str = ""
) -> Iterator[str]:
    for name, value in message.items():
        place = f"{inside}{name}"
        yield place
        if isinstance(value, dict) and any(other.startswith(f"{place}.") for other in fields):
            yield from _walk(value, fields, f"{place}.")
