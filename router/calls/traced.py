"""Calls that are traced: each in a span whose id goes along, where the process has an OpenTelemetry SDK."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from typing import Protocol

from router.calls.request_reply import ServiceReply
from router.contracts.headers import TRACEPARENT
from router.observability.tracing import Tracing, tracing

_LINE = re.compile(rb"(?<=\r\n)traceparent: ([^\r]*)\r\n")


class Requester(Protocol):
    """What `Calls` is."""

    def head(self, headers: Mapping[str, str]) -> bytes: ...

    def call(self, subject: str, data: bytes, head: bytes, timeout_s: float) -> Awaitable[ServiceReply]: ...


def traced_calls(calls: Requester) -> Requester:
    """The very same calls, unless an SDK is configured by now."""
    traced = tracing()
    return calls if traced is None else TracedCalls(traced, calls)


class TracedCalls:
    """Below the `traceparent` in the head of a call, else below the span that is current."""

    def __init__(self, traced: Tracing, calls: Requester) -> None:
        self._traced = traced
        self._calls = calls

    def head(self, headers: Mapping[str, str]) -> bytes:
        return self._calls.head(headers)

    async def call(self, subject: str, data: bytes, head: bytes, timeout_s: float) -> ServiceReply:
        found = _LINE.search(head)
        with self._traced.sending(subject, {} if found is None else {TRACEPARENT: found[1].decode("utf-8", "replace")}) as carried:
            if TRACEPARENT in carried:  # it is not, where the SDK is there and switched off
                head = _LINE.sub(b"", head) + b"traceparent: %b\r\n" % carried[TRACEPARENT].encode()
            answered = await self._calls.call(subject, data, head, timeout_s)
            if answered.error_code is not None:
                self._traced.failed(str(answered.error_code))
            return answered
