"""One RouteRequest: what every accepted form of a decide request becomes before anything else sees
it.

Rule: docs/reference/contracts.md#decide-requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from router.contracts.raw_json import RawJson

NOTHING: Mapping[str, object] = MappingProxyType({})
NO_HINTS: Mapping[str, str] = MappingProxyType({})
MAX_REFERENCE = 4096  # characters of a payload_ref
MAX_IDEMPOTENCY_KEY = 256  # characters
ADJUSTMENT_TYPE = "usage.adjustment"  # the event_type of every adjustment, and of nothing else
# of every attempt of an invocation, and of nothing else
INVOKED_TYPE, STREAMED_TYPE = "provider.invoke", "provider.invoke.stream"
# no request, result or job may say one
RESERVED_TYPES = frozenset({ADJUSTMENT_TYPE, INVOKED_TYPE, STREAMED_TYPE})
RESERVED = f"but {ADJUSTMENT_TYPE}, {INVOKED_TYPE} and {STREAMED_TYPE}"
# 1 and 0 are True and False
PUSH_VALUES: dict[object, bool] = {True: True, "true": True, False: False, "false": False}


class RouteRequest(Struct, frozen=True, kw_only=True, gc=False):
    """A valid decide request, whatever form it came in.
    (docs/reference/contracts.md#decide-requests).
    """

    tenant_id: str
    message_type: str
    # any JSON value as it was written; bytes of protobuf or base64 that are not UTF-8
    payload: RawJson | bytes | None = None
    payload_ref: str | None = None
    request_key: str  # what makes it "the same request" within its tenant
    answer_id: str  # `context.request_id` of the answer
    policy_id: str = "default"
    request_id: str | None = None
    message_id: str | None = None
    trace_id: str | None = None
    idempotency_key: str | None = None
    # constraints, metadata, message.metadata, context; the later wins
    context: Mapping[str, object] = NOTHING
    constraints: Mapping[str, object] = NOTHING  # as given: max_latency_ms, max_cost
    metadata: Mapping[str, object] = NOTHING
    timestamp_ms: int | None = None
    run_id: str | None = None
    flow_id: str | None = None
    step_id: str | None = None
    push_assignment: bool = False
    assignment_subject: str | None = None
    # unknown names that look like known ones, and what was probably meant
    hints: Mapping[str, str] = NO_HINTS
    wants_protobuf: bool = False  # `Accept: application/x-protobuf`
