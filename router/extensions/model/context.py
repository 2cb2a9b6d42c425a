"""The request on its way through a pipeline: what extensions receive, and what they may change.

    a pre-processor    replaces payload, message metadata and message type; what it answers as
                       metadata goes into the context
    a post-processor   adds to the decision's metadata: all strings, and no key that stands there
                       already

An answer never changes the tenant, the policy, ids, constraints or an assignment's subject. An
extension that returns what it was sent has added nothing, also where it wrote the payload anew: the
same values are no change, and the bytes that came go on. The request is encoded once until it
changes: the next extensions get the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from router.contracts.content import is_same_payload
from router.contracts.decision import Decision
from router.contracts.extension import (
    InvalidExtensionMessage,
    ProcessorAnswer,
    message_bytes,
    metadata_bytes,
    opening_bytes,
    read_processor_answer,
    request_bytes,
)
from router.contracts.request import RouteRequest
from router.core import ids

# the router adds them: an extension that returns them has added nothing
OWN = ("policy_id", "decision")


class PipelineContext:
    """One request, and the decision once there is one."""

    def __init__(self, request: RouteRequest, policy_id: str, traceparent: str | None) -> None:
        self.request = request
        trace_id = request.trace_id or ids.derived_uuid(request.tenant_id, request.request_key)
        self.headers = {"trace_id": trace_id, "tenant_id": request.tenant_id}
        if traceparent is not None:
            self.headers["traceparent"] = traceparent
        self.additions: dict[str, str] = {}  # to the decision's metadata
        self._policy_id = policy_id
        self._decision: Decision | None = None
        self._opening = opening_bytes(trace_id, request.tenant_id)
        self._message: bytes | None = None
        self._metadata: bytes | None = None

    def build_request(self, config: Mapping[str, object]) -> bytes:
        """What an extension with this config is asked. Raises InvalidExtensionMessage when it is
        too large to be.
        """
        if self._message is None:
            self._message = message_bytes(self.request)
        if self._metadata is None:
            self._metadata = metadata_bytes(self.request.context, self._policy_id, self._decision)
        return request_bytes(self._opening, self._message, self._metadata, config)

    def apply_answer(self, asked: RouteRequest, changed: ProcessorAnswer) -> None:
        """What a pre-processor answered to `asked`: only what it changed counts, for neighbours may
        have changed the rest.
        """
        message = changed.message
        fields: dict[str, object] = {}
        if message.payload is not None and not is_same_payload(message.payload, asked.payload):
            fields.update(payload=message.payload, payload_ref=None)
        if message.message_type and message.message_type != asked.message_type:
            fields["message_type"] = message.message_type
        if message.metadata is not None and message.metadata != asked.metadata:
            fields["metadata"] = message.metadata
        if news := _find_changes(changed.metadata, asked.context):
            fields["context"] = {**self.request.context, **news}
        if fields:
            self.request = replace(self.request, **fields)
            self._message = self._metadata = None

    def set_decision(self, decision: Decision) -> None:
        """Set the decision: from now on extensions receive it."""
        self._decision = decision
        self._metadata = None

    def read_additions(self, data: bytes) -> dict[str, str]:
        """What a post-processor adds. Raises InvalidExtensionMessage, also for what is no text."""
        news = _find_changes(read_processor_answer(data).metadata, self.request.context)
        for name, value in news.items():
            if not isinstance(value, str):
                raise InvalidExtensionMessage(f"metadata.{name}: a decision's metadata is all text")
        return news


def _find_changes(metadata: Mapping[str, Any], context: Mapping[str, object]) -> dict[str, Any]:
    """The entries that were not sent, or were sent with another value."""
    return {
        name: value
        for name, value in metadata.items()
        if name not in OWN and not (name in context and context[name] == value)
    }
