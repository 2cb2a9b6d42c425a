"""Calls with traces: each in a span that the request carries, if the process has an OpenTelemetry
SDK.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from typing import Protocol

from router.contracts.headers import TRACEPARENT
from router.delivery.wire.calls.request_reply import ServiceReply
from router.process.observability.tracing import Tracing, find_tracing

_LINE = re.compile(rb"(?<=\r\n)traceparent: ([^\r]*)\r\n")


class Requester(Protocol):
    """`Calls`, or the same with traces."""

    def head(self, headers: Mapping[str, str]) -> bytes: ...

    def call(
        self, subject: str, data: bytes, head: bytes, timeout_s: float
    ) -> Awaitable[ServiceReply]: ...


def trace_calls(calls: Requester) -> Requester:
    """The same calls, unless an SDK is configured already."""
    tracing = find_tracing()
    return calls if tracing is None else TracedCalls(tracing, calls)


class TracedCalls:
    """Parent of each span: the `traceparent` in the head of the call, else the current span."""

    def __init__(self, tracing: Tracing, calls: Requester) -> None:
        self._tracing = tracing
        self._calls = calls

    def head(self, headers: Mapping[str, str]) -> bytes:
        return self._calls.head(headers)

    async def call(self, subject: str, data: bytes, head: bytes, timeout_s: float) -> ServiceReply:
        found = _LINE.search(head)
        with self._tracing.trace_request(
            subject, {} if found is None else {TRACEPARENT: found[1].decode("utf-8", "replace")}
        ) as traced:
            if TRACEPARENT in traced:  # it is missing if the SDK is installed and switched off
                head = _LINE.sub(b"", head) + b"traceparent: %b\r\n" % traced[TRACEPARENT].encode()
            reply = await self._calls.call(subject, data, head, timeout_s)
            if reply.error_code is not None:
                self._tracing.mark_failed(str(reply.error_code))
            return reply
