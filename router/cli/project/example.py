"""request.json of a project: the request that `router dev` asks after each change, and its answer as a line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from router.contracts.codec import UNREADABLE_ERRORS, check_numbers, describe_unreadable
from router.core.errors import Misconfigured
from router.sdk.answer import Answer

FILE = "request.json"
MAX_BYTES = 1 << 20
MAX_SHOWN = 60


class ExampleRequest(Struct, forbid_unknown_fields=True):
    """What `Client.decide` takes."""

    tenant_id: str
    message_type: str
    payload: Any
    policy_id: str | None = None
    context: dict[str, Any] | None = None
    push_assignment: bool = False


DEFAULT = ExampleRequest("acme", "chat", "hello")


def read_example(directory: Path) -> ExampleRequest:
    """Read request.json; a plain request if there is none. Raises Misconfigured."""
    path = directory / FILE
    if not path.is_file():
        return DEFAULT
    if path.stat().st_size > MAX_BYTES:
        raise Misconfigured(FILE, f"has more than {MAX_BYTES} bytes")
    data = b""
    try:
        data = path.read_bytes()
        request = msgspec.json.decode(data, type=ExampleRequest)
        check_numbers(data, request)
    except (*UNREADABLE_ERRORS, OSError, ValueError) as exc:
        raise Misconfigured(FILE, describe_unreadable(data, exc)) from exc
    return request


def format_request(request: ExampleRequest) -> str:
    payload = msgspec.json.encode(request.payload).decode()
    return f"{request.tenant_id} {request.message_type} {payload if len(payload) <= MAX_SHOWN else payload[:MAX_SHOWN] + '…'}"


def format_answer(answer: Answer, latency_ms: float) -> str:
    """Who does it and why, by which policy, which extensions were called; or what the refusal says."""
    if answer.decision is None:
        refusal = answer.error
        return f"refused: {refusal.code}: {refusal.message}" if refusal is not None else "refused"
    decision = answer.decision
    metadata: Mapping[str, str] = decision.metadata
    policy = f"policy {metadata.get('policy_id')} version {metadata.get('policy_version')}"
    return f"{decision.provider_id} ({decision.reason}), {policy}, {latency_ms:.1f} ms"
