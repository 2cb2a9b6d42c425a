"""The result that every side is told: one content as JSON or protobuf, with the four headers of `requests`; a number makes it a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from bench.requests import TENANT, TRACE
from router.contracts.pb.beamline.worker.v1 import result_pb2

STAMP_MS = 1_700_000_000_500


def as_json(number: int) -> bytes:
    return orjson.dumps({**_fields(number), "job": {"type": "chat"}})


def as_protobuf(number: int) -> bytes:
    data: bytes = result_pb2.ExecResult(**_fields(number), job=result_pb2.Job(type="chat")).SerializeToString()
    return data


FORMS: dict[str, Callable[[int], bytes]] = {"json": as_json, "protobuf": as_protobuf}


def _fields(number: int) -> dict[str, Any]:
    return {
        "assignment_id": f"5d9c2f7e-8f7b-5c1e-9a39-{number:012d}",
        "request_id": f"r-{number}",
        "status": "success",
        "provider_id": "openai",
        "latency_ms": 812,
        "cost": 0.0123,
        "trace_id": TRACE,
        "tenant_id": TENANT,
        "timestamp": STAMP_MS,
    }
