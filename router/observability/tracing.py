"""Spans, where the process has an OpenTelemetry SDK; else nothing, at no cost (W3C Trace Context, OpenTelemetry's messaging conventions).

    process    a message in its handler                       consumer    below the message's `traceparent`
    create     what a handler leaves: assignment, result,     producer    below `process`; its id goes along as `traceparent`
               usage event, dead letter
    send       a question that waits for its answer           client      below what is current
    replay     a letter sent again                            producer    a trace of its own, linked to the one that failed

`tracing()` is asked once, by who makes a lane or a caller: None unless an SDK is configured by then, and whoever gets None
goes on as if this file did not exist. OpenTelemetry is imported here and in `tracing_setup` alone, and is no dependency.
An attribute says where, how large and how it ended: no payload, no header but the message's id, no text of an exception.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from router.contracts.headers import MESSAGE_ID, TRACEPARENT, message_id_in, traceparent_in
from router.message import NO_HEADERS, Effect, Message

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

SDK = "opentelemetry.sdk.trace"
SCOPE = "router"

Facts = Mapping[str, str | int]


def tracing() -> Tracing | None:
    """None: no SDK is configured in this process, so there is nothing to trace with."""
    sdk = sys.modules.get(SDK)
    if sdk is None:
        return None
    api = import_module("opentelemetry.trace")
    return Tracing() if isinstance(api.get_tracer_provider(), sdk.TracerProvider) else None


def sending(subject: str, headers: Mapping[str, str]) -> AbstractContextManager[Mapping[str, str]]:
    """Around a question and its answer: the headers to send it with."""
    traced = tracing()
    return contextlib.nullcontext(headers) if traced is None else traced.sending(subject, headers)


class Tracing:
    """The kinds of span that the router knows."""

    def __init__(self) -> None:
        # Untyped from here: mypy must pass, and most processes must run, where OpenTelemetry is not installed.
        self._api: Any = import_module("opentelemetry.trace")
        self._root: Context = import_module("opentelemetry.context").Context()
        self._w3c: Any = import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
        self._tracer = self._api.get_tracer(SCOPE)

    # -- a message in its handler --------------------------------------------------------------------------------

    def process(self, message: Message) -> Span:
        """Begun; `current` makes it the parent of what is done meanwhile, `ended` ends it. A message without a trace begins one."""
        facts = {**_facts("process", message.subject, message.data), **_of_stream(message)}
        return self._begin(f"process {message.subject}", "CONSUMER", facts, self._above(message.headers) or self._root)

    def serve(self, name: str, headers: Mapping[str, str], facts: Facts) -> Span:
        """The same for a request that is no stored message."""
        return self._begin(name, "SERVER", facts, self._above(headers) or self._root)

    def current(self, span: Span) -> AbstractContextManager[Span]:
        """Spans begun inside are below it. What is raised inside is not written down: it may quote a payload."""
        around: AbstractContextManager[Span] = self._api.use_span(span, record_exception=False, set_status_on_exception=False)
        return around

    def ended(self, span: Span, error: str | None = None) -> None:
        """`error`: a stable code, never a text."""
        if error is not None:
            self._marked(span, error)
        span.end()

    def failed(self, error: str) -> None:
        """What is current came to nothing, and goes on."""
        self._marked(self._api.get_current_span(), error)

    def _marked(self, span: Span, error: str) -> None:
        span.set_attribute("error.type", error)
        span.set_status(self._api.StatusCode.ERROR)

    # -- a message that leaves -----------------------------------------------------------------------------------

    def created(self, effect: Effect, below: Span | Mapping[str, str]) -> Effect:
        """The effect with a span of its own as `traceparent`; `below`: the handler's span, or the headers of the message it came of."""
        above = self._above(below) if isinstance(below, Mapping) else self._api.set_span_in_context(below, self._root)
        span = self._begin(f"create {effect.subject}", "PRODUCER", _of_effect("create", effect), above or self._root)
        span.end()
        return replace(effect, headers=self._carried(span, effect.headers))

    def replayed(self, effect: Effect) -> Effect:
        """The effect as the beginning of a new trace, with a link to the one in which it failed."""
        context = self._above(effect.headers)
        failed = [] if context is None else [self._api.Link(self._api.get_current_span(context).get_span_context())]
        span = self._begin(f"replay {effect.subject}", "PRODUCER", _of_effect("replay", effect), self._root, failed)
        span.end()
        return replace(effect, headers=self._carried(span, effect.headers))

    @contextlib.contextmanager
    def sending(self, subject: str, headers: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """The span lives until the answer is there. Headers that name another trace than the current one are meant so."""
        span = self._begin(f"send {subject}", "CLIENT", _facts("send", subject), self._meant(headers))
        error: str | None = "cancelled"
        try:
            with self.current(span):
                yield self._carried(span, headers)
            error = None
        except Exception as exc:  # whatever the caller meets goes on to it; the span only says its name
            error = code_of(exc)
            raise
        finally:
            self.ended(span, error)

    # -- W3C -----------------------------------------------------------------------------------------------------

    def _begin(self, name: str, kind: str, facts: Facts, above: Context | None, links: list[Any] | None = None) -> Span:
        """`above` None: below what is current."""
        span: Span = self._tracer.start_span(name, above, self._api.SpanKind[kind], facts, links)
        return span

    def _above(self, headers: Mapping[str, str]) -> Context | None:
        """None where there is no `traceparent`, or none that is W3C's: it counts as absent (docs/contracts.md#violations)."""
        traceparent = traceparent_in(headers)
        return None if traceparent is None else self._w3c.extract({TRACEPARENT: traceparent}, self._root)

    def _meant(self, headers: Mapping[str, str]) -> Context | None:
        """None: what is current, which is below the message whose `traceparent` these headers repeat."""
        current = self._api.get_current_span().get_span_context()
        return None if headers.get(TRACEPARENT, "")[3:35] == f"{current.trace_id:032x}" else self._above(headers)

    def _carried(self, span: Span, headers: Mapping[str, str]) -> dict[str, str]:
        ours: dict[str, str] = {}
        self._w3c.inject(ours, self._api.set_span_in_context(span, self._root))
        return {**headers, TRACEPARENT: ours[TRACEPARENT]} if TRACEPARENT in ours else dict(headers)


def code_of(exc: BaseException) -> str:
    """What a span says of an exception: our code, or the class."""
    return str(getattr(exc, "code", None) or type(exc).__name__)


def _facts(operation: str, subject: str, data: bytes | None = None) -> dict[str, str | int]:
    facts: dict[str, str | int] = {
        "messaging.system": "nats",
        "messaging.operation.name": operation,
        "messaging.operation.type": "create" if operation == "replay" else operation,
        "messaging.destination.name": subject,
    }
    if data is not None:
        facts["messaging.message.body.size"] = len(data)
    return facts


def _of_effect(operation: str, effect: Effect) -> Facts:
    reason = {} if (found := effect.headers.get("x-dlq-reason")) is None else {"router.dlq.reason": found}
    return {**_facts(operation, effect.subject, effect.data), **_named({MESSAGE_ID: effect.id}), **reason}


def _of_stream(message: Message) -> Facts:
    return {
        **_named(message.headers),
        "messaging.consumer.group.name": message.consumer,
        "messaging.nats.stream": message.stream,
        "messaging.nats.stream.sequence": message.sequence,
        "messaging.nats.deliveries": message.deliveries,
    }


def _named(headers: Mapping[str, str] = NO_HEADERS) -> Facts:
    message_id = message_id_in(headers)
    return {} if message_id is None else {"messaging.message.id": message_id}
