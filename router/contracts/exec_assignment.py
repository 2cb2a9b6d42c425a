"""An assignment as a worker reads it: ExecAssignment (docs/reference/contracts.md#assignments),
every field that work needs.

Any router may have written it, so what is optional may be absent, null or empty, and unknown fields
are ignored. What the router itself reads back of one is less (`assignment.Assignment`), and must be
as it wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from router.contracts.codec import UNREADABLE_ERRORS, bytes_of, describe_unreadable
from router.contracts.field_readers import OPAQUE, SCOPED, is_scoped
from router.contracts.raw_json import MAX_DIGITS, RawJson, has_endless_number
from router.core import ids
from router.core.errors import Poison

USUAL_DEADLINE_MS = 60_000
USUAL_ATTEMPTS = 2
USUAL_BACKOFF_MS = 200
_MAX_ATTEMPTS = 100  # an assignment must not keep a worker for ever

_OPAQUE = ("assignment_id", "request_id")
_OPTIONAL = ("trace_id", "run_id", "flow_id", "step_id")

Metadata = Mapping[str, object]


class ExecAssignment(Struct, frozen=True, kw_only=True):
    """Work: for whom, what, and for how long."""

    assignment_id: str
    request_id: str
    tenant_id: str
    provider_id: str
    job_type: str
    raw_payload: RawJson | bytes  # as it was written, or the bytes that were base64 on the wire
    payload_ref: str | None
    priority: int
    deadline_ms: int  # for all attempts together, from the first one's begin
    max_attempts: int
    backoff_ms: int
    trace_id: str | None
    run_id: str | None
    flow_id: str | None
    step_id: str | None
    metadata: Metadata

    @property
    def payload(self) -> Any:
        """The payload's value: any JSON value, or bytes. Integers are exact; other numbers are
        floats, as Python's `json` reads them.
        """
        return (
            self.raw_payload.read() if isinstance(self.raw_payload, RawJson) else self.raw_payload
        )

    @property
    def payload_bytes(self) -> bytes:
        """The payload's JSON as it was sent, to read numbers that no float holds; or the bytes that
        were base64.
        """
        return self.raw_payload.data if isinstance(self.raw_payload, RawJson) else self.raw_payload


def read_exec_assignment(data: bytes) -> ExecAssignment:
    """The assignment in these bytes. Raises Poison, which names the place, when there is none."""
    try:
        # `check_text` in place: once an assignment
        data.isascii() or data.decode()
        wire = _decode(data)
        payload = _read_payload(wire.job)
    except (*UNREADABLE_ERRORS, ValueError, TypeError, AttributeError) as exc:
        raise Poison(f"not an assignment: {describe_unreadable(data, exc)}") from exc
    _check_ids(wire)
    return _assignment(wire, payload)


def _read_payload(job: _Job) -> RawJson | bytes:
    """Raises ValueError for one that no handler could read."""
    payload = RawJson(bytes(job.payload))
    # few are so long
    if len(payload.data) > MAX_DIGITS and has_endless_number(payload.data):
        raise ValueError(f"a number of its payload has more than {MAX_DIGITS} digits in a row")
    return bytes_of(payload.read(), job.payload_encoding) if job.payload_encoding else payload


def _check_ids(wire: _ExecAssignmentWire) -> None:
    """Raises Poison. Ids go into headers and reports, which have limits of their own."""
    is_usual = (
        ids.is_opaque(wire.assignment_id)
        and ids.is_opaque(wire.request_id)
        and (not wire.trace_id or ids.is_opaque(wire.trace_id))
        and not (wire.run_id or wire.flow_id or wire.step_id)
        and is_scoped(wire.tenant_id)
        and len(wire.executor.provider_id) <= ids.MAX_TYPE
        and len(wire.job.type) <= ids.MAX_TYPE
    )
    if not is_usual:
        _check_each_id(wire)


def _check_each_id(wire: _ExecAssignmentWire) -> None:
    """The rule; it takes three times as long."""
    for name in _OPAQUE:
        if not ids.is_opaque(getattr(wire, name)):
            raise Poison(f"not an assignment: {name} should be {OPAQUE}")
    for name in _OPTIONAL:
        if (value := getattr(wire, name)) and not ids.is_opaque(value):
            raise Poison(f"not an assignment: {name} should be {OPAQUE}")
    if not is_scoped(wire.tenant_id):
        raise Poison(f"not an assignment: tenant_id should be {SCOPED}")
    for name, value in (
        ("executor.provider_id", wire.executor.provider_id),
        ("job.type", wire.job.type),
    ):
        if len(value) > ids.MAX_TYPE:
            raise Poison(f"not an assignment: {name} is above {ids.MAX_TYPE} characters")


def _assignment(wire: _ExecAssignmentWire, payload: RawJson | bytes) -> ExecAssignment:
    options, retry = wire.options or _Options(), (wire.options and wire.options.retry) or _Retry()
    return ExecAssignment(
        assignment_id=wire.assignment_id,
        request_id=wire.request_id,
        tenant_id=wire.tenant_id,
        provider_id=wire.executor.provider_id,
        job_type=wire.job.type,
        raw_payload=payload,
        payload_ref=wire.job.payload_ref,
        priority=options.priority,
        deadline_ms=options.deadline_ms,
        max_attempts=retry.max_attempts,
        backoff_ms=retry.backoff_ms,
        trace_id=wire.trace_id or None,
        run_id=wire.run_id or None,
        flow_id=wire.flow_id or None,
        step_id=wire.step_id or None,
        metadata=wire.metadata or {},
    )


class _Executor(Struct):
    provider_id: str


class _Job(Struct):
    type: str
    payload: Raw = Raw(b"null")
    payload_encoding: str | None = None
    payload_ref: str | None = None


class _Retry(Struct):
    max_attempts: Annotated[int, Meta(ge=1, le=_MAX_ATTEMPTS)] = USUAL_ATTEMPTS
    backoff_ms: Annotated[int, Meta(ge=0)] = USUAL_BACKOFF_MS


class _Options(Struct):
    priority: int = 0
    deadline_ms: Annotated[int, Meta(ge=1)] = USUAL_DEADLINE_MS
    retry: _Retry | None = None


class _ExecAssignmentWire(Struct):
    assignment_id: str
    request_id: str
    tenant_id: str
    executor: _Executor
    job: _Job
    options: _Options | None = None
    trace_id: str | None = None
    run_id: str | None = None
    flow_id: str | None = None
    step_id: str | None = None
    metadata: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_ExecAssignmentWire).decode
