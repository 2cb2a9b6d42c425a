"""The result that every side is told, and the assignment that it is of: one content, which a number
makes a new one.

A result is JSON or protobuf, with the four headers of `requests`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from bench.requests import TENANT, TEXT, TRACE
from router.contracts.assignment import ASSIGNMENT_SUBJECT, assignment_bytes
from router.contracts.assignment_record import build_record
from router.contracts.decision import Decision, RouteRequest
from router.contracts.pb.beamline.worker.v1 import result_pb2
from router.contracts.raw_json import RawJson
from router.contracts.stored_record import record_bytes
from router.core.clock import now_ms
from router.delivery.wire.connection import head_of

DECISION = Decision(
    "openai", "weighted", 50, 800, 0.012, {"policy_id": "default", "policy_version": "1"}
)
STAMP_MS = now_ms()  # a result's own time has to lie near the time that it is stored at


def as_json(number: int) -> bytes:
    return orjson.dumps({**_fields(number), "job": {"type": "chat"}})


def as_protobuf(number: int) -> bytes:
    data: bytes = result_pb2.ExecResult(
        **_fields(number), job=result_pb2.Job(type="chat")
    ).SerializeToString()
    return data


def as_ack(number: int) -> bytes:
    """A worker's word that it takes the assignment."""
    fields = _fields(number)
    kept = {name: fields[name] for name in ("assignment_id", "request_id", "trace_id", "tenant_id")}
    return orjson.dumps({**kept, "status": "accepted", "acknowledged_at": STAMP_MS})


def as_record(number: int) -> tuple[str, bytes]:
    """The assignment that this result is of: its id, and its record in the bucket of known
    assignments.
    """
    key, request = _assignment_id(number), _request(number, "…")
    return key, record_bytes(
        build_record(
            key,
            request,
            DECISION,
            subject=ASSIGNMENT_SUBJECT,
            traceparent=None,
            content=None,
            requested_at_ms=STAMP_MS,
        )
    )


def as_assignment(number: int) -> bytes:
    """What the router publishes for a worker."""
    return assignment_bytes(_assignment_id(number), _request(number, TEXT), DECISION)


def assignment_head(number: int) -> bytes:
    """The block of headers of an assignment."""
    return head_of(
        {
            "version": "1",
            "tenant_id": TENANT,
            "trace_id": TRACE,
            "Nats-Msg-Id": _assignment_id(number),
        }
    )


FORMS: dict[str, Callable[[int], bytes]] = {"json": as_json, "protobuf": as_protobuf}


def _assignment_id(number: int) -> str:
    return f"5d9c2f7e-8f7b-5c1e-9a39-{number:012d}"


def _request(number: int, payload: str) -> RouteRequest:
    key = f"r-{number}"
    return RouteRequest(
        tenant_id=TENANT,
        message_type="chat",
        payload=RawJson.encode(payload),
        request_key=key,
        answer_id=key,
        trace_id=TRACE,
    )


def _fields(number: int) -> dict[str, Any]:
    return {
        "assignment_id": _assignment_id(number),
        "request_id": f"r-{number}",
        "status": "success",
        "provider_id": "openai",
        "latency_ms": 812,
        "cost": 0.0123,
        "trace_id": TRACE,
        "tenant_id": TENANT,
        "timestamp": STAMP_MS,
    }
