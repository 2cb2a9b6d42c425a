"""Spans, if the process has an OpenTelemetry SDK (W3C Trace Context, OpenTelemetry's messaging
conventions); and a consumer's handler inside one.

    process    a message in its handler                         consumer    parent: the message's
               `traceparent`
    create     an effect of a handler: assignment, result,      producer    parent: `process`; the
               effect carries it as
               usage event, dead letter                                     `traceparent`
    send       a request that waits for its answer              client      parent: the current span
    replay     a dead letter that is replayed                   producer    a new trace, linked to
               the one that failed

A consumer or a caller calls `find_tracing()` once, when it is created. It is None without a
configured SDK; then the consumer does nothing for traces, and they cost nothing. Only this file and
`tracing_setup` import OpenTelemetry, which is no dependency. Attributes are places, sizes and
outcomes: no payload, no header but the message's id, no text of an exception.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from router.contracts.headers import MESSAGE_ID, TRACEPARENT, message_id_in, traceparent_in
from router.core.deferred import Deferred
from router.core.header_names import replace_headers
from router.core.message import NO_HEADERS, Effect, Message
from router.core.outcome import Dead, Done, Fault, Handler, Hold, Outcome, Retry

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span


SDK = "opentelemetry.sdk.trace"
SCOPE = "router"

Facts = Mapping[str, str | int]


def find_tracing() -> Tracing | None:
    """None if no SDK is configured in this process."""
    sdk = sys.modules.get(SDK)
    if sdk is None:
        return None
    api = import_module("opentelemetry.trace")
    return Tracing() if isinstance(api.get_tracer_provider(), sdk.TracerProvider) else None


def trace_request(
    subject: str, headers: Mapping[str, str]
) -> AbstractContextManager[Mapping[str, str]]:
    """A span around a request and its answer, if there is an SDK. Yields the headers to send the
    request with.
    """
    tracing = find_tracing()
    return (
        contextlib.nullcontext(headers)
        if tracing is None
        else tracing.trace_request(subject, headers)
    )


class Tracing:
    """Starts and ends the router's spans."""

    def __init__(self) -> None:
        # Untyped: mypy and most processes run where OpenTelemetry is not installed.
        self._api: Any = import_module("opentelemetry.trace")
        self._root: Context = import_module("opentelemetry.context").Context()
        self._w3c: Any = import_module(
            "opentelemetry.trace.propagation.tracecontext"
        ).TraceContextTextMapPropagator()
        self._tracer = self._api.get_tracer(SCOPE)

    # -- a message in its handler ------------------------------------------------------------------

    def start_message_span(self, message: Message) -> Span:
        """Start the span of a message; `end_span` ends it. A message without a `traceparent` starts
        a new trace.
        """
        facts = {**_facts("process", message.subject, message.data), **_stream_facts(message)}
        return self._start(
            f"process {message.subject}",
            "CONSUMER",
            facts,
            self._read_parent(message.headers) or self._root,
        )

    def start_server_span(self, name: str, headers: Mapping[str, str], facts: Facts) -> Span:
        """The same for a request that is no stored message."""
        return self._start(name, "SERVER", facts, self._read_parent(headers) or self._root)

    def activate(self, span: Span) -> AbstractContextManager[Span]:
        """Make it the parent of spans started inside. Exceptions are not recorded, because they may
        quote a payload.
        """
        context: AbstractContextManager[Span] = self._api.use_span(
            span, record_exception=False, set_status_on_exception=False
        )
        return context

    def end_span(self, span: Span, error: str | None = None) -> None:
        """`error`: a stable code, never a text."""
        if error is not None:
            self._mark_span_failed(span, error)
        span.end()

    def mark_failed(self, error: str) -> None:
        """Mark the current span as failed, without ending it."""
        self._mark_span_failed(self._api.get_current_span(), error)

    def _mark_span_failed(self, span: Span, error: str) -> None:
        span.set_attribute("error.type", error)
        span.set_status(self._api.StatusCode.ERROR)

    # -- a message that is published ---------------------------------------------------------------

    def trace_effect(self, effect: Effect, parent: Span | Mapping[str, str]) -> Effect:
        """The effect with a span of its own as `traceparent`. `parent`: the handler's span, or the
        headers of its message.
        """
        context = (
            self._read_parent(parent)
            if isinstance(parent, Mapping)
            else self._api.set_span_in_context(parent, self._root)
        )
        span = self._start(
            f"create {effect.subject}",
            "PRODUCER",
            _effect_facts("create", effect),
            context or self._root,
        )
        span.end()
        return replace(effect, headers=self._add_traceparent(span, effect.headers))

    def trace_replay(self, effect: Effect) -> Effect:
        """The effect as the start of a new trace, linked to the trace in which it failed."""
        context = self._read_parent(effect.headers)
        links = (
            []
            if context is None
            else [self._api.Link(self._api.get_current_span(context).get_span_context())]
        )
        span = self._start(
            f"replay {effect.subject}",
            "PRODUCER",
            _effect_facts("replay", effect),
            self._root,
            links,
        )
        span.end()
        return replace(effect, headers=self._add_traceparent(span, effect.headers))

    @contextlib.contextmanager
    def trace_request(
        self, subject: str, headers: Mapping[str, str]
    ) -> Iterator[Mapping[str, str]]:
        """A span until the answer is there. Headers that name another trace than the current one
        decide the parent.
        """
        span = self._start(
            f"send {subject}", "CLIENT", _facts("send", subject), self._choose_parent(headers)
        )
        error: str | None = "cancelled"
        try:
            with self.activate(span):
                yield self._add_traceparent(span, headers)
            error = None
        except Exception as exc:  # the caller gets every exception; the span records its code only
            error = code_of(exc)
            raise
        finally:
            self.end_span(span, error)

    # -- W3C ---------------------------------------------------------------------------------------

    def _start(
        self,
        name: str,
        kind: str,
        facts: Facts,
        parent: Context | None,
        links: list[Any] | None = None,
    ) -> Span:
        """`parent` None: the current span."""
        span: Span = self._tracer.start_span(name, parent, self._api.SpanKind[kind], facts, links)
        return span

    def _read_parent(self, headers: Mapping[str, str]) -> Context | None:
        """None if `traceparent` is missing or not valid, which counts as missing
        (docs/reference/contracts.md#violations).
        """
        traceparent = traceparent_in(headers)
        return (
            None
            if traceparent is None
            else self._w3c.extract({TRACEPARENT: traceparent}, self._root)
        )

    def _choose_parent(self, headers: Mapping[str, str]) -> Context | None:
        """None, the current span, if the headers repeat the `traceparent` of the trace that it
        belongs to.
        """
        current = self._api.get_current_span().get_span_context()
        return (
            None
            if headers.get(TRACEPARENT, "")[3:35] == f"{current.trace_id:032x}"
            else self._read_parent(headers)
        )

    def _add_traceparent(self, span: Span, headers: Mapping[str, str]) -> dict[str, str]:
        trace_headers: dict[str, str] = {}
        self._w3c.inject(trace_headers, self._api.set_span_in_context(span, self._root))
        return replace_headers(
            headers, {name: trace_headers[name] for name in (TRACEPARENT,) if name in trace_headers}
        )


def code_of(exc: BaseException) -> str:
    """What a span records of an exception: its stable code, else its class."""
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


def _effect_facts(operation: str, effect: Effect) -> Facts:
    reason = (
        {}
        if (value := effect.headers.get("x-dlq-reason")) is None
        else {"router.dlq.reason": value}
    )
    return {
        **_facts(operation, effect.subject, effect.data),
        **_id_facts({MESSAGE_ID: effect.id}),
        **reason,
    }


def _stream_facts(message: Message) -> Facts:
    return {
        **_id_facts(message.headers),
        "messaging.consumer.group.name": message.consumer,
        "messaging.nats.stream": message.stream,
        "messaging.nats.stream.sequence": message.sequence,
        "messaging.nats.deliveries": message.deliveries,
    }


def _id_facts(headers: Mapping[str, str] = NO_HEADERS) -> Facts:
    message_id = message_id_in(headers)
    return {} if message_id is None else {"messaging.message.id": message_id}


# -- Traces for a consumer's messages: the handler runs inside a span, and its effects carry that
# trace.
#
#     handle = trace_handler(handle)              the same handler, unless an SDK is configured when
#                                                 the consumer is created
#     dead_letter = trace_dead_letter(dead_letter)
#
# The handler gets the message unchanged, so it does the same with an SDK as without.


DeadLetterWriter = Callable[[Message, str, Fault], Effect | None]


def trace_handler(handle: Handler) -> Handler:
    tracing = find_tracing()
    return handle if tracing is None else TracedHandler(tracing, handle)


def trace_dead_letter(dead_letter: DeadLetterWriter) -> DeadLetterWriter:
    tracing = find_tracing()
    if tracing is None:
        return dead_letter

    def write(message: Message, reason: str, fault: Fault) -> Effect | None:
        effect = dead_letter(message, reason, fault)
        if effect is None:
            return None
        traced = tracing.trace_effect(effect, message.headers)
        # A dead letter fits the server's size limit with exactly its headers: one more header could
        # exceed it.
        return traced if TRACEPARENT in effect.headers else effect

    return write


def trace_replay(effects: Sequence[Effect]) -> Sequence[Effect]:
    """The messages that an operator replays, each with a new trace."""
    tracing = find_tracing()
    return effects if tracing is None else [tracing.trace_replay(effect) for effect in effects]


class TracedHandler:
    """A handler in a span, whether its outcome is a value, a Deferred or an awaitable."""

    def __init__(self, tracing: Tracing, handle: Handler) -> None:
        self._tracing = tracing
        self._handle = handle

    def __call__(self, message: Message) -> Outcome | Awaitable[Outcome]:
        span = self._tracing.start_message_span(message)
        with self._activate(span):
            outcome = self._handle(message)
        if isinstance(outcome, Deferred):
            return self._map(span, outcome)
        return (
            self._await(span, outcome)
            if isinstance(outcome, Awaitable)
            else self._end(span, outcome)
        )

    async def _await(self, span: Span, awaitable: Awaitable[Outcome]) -> Outcome:
        with self._activate(span):
            outcome = await awaitable
        return self._end(span, outcome)

    def _map(self, span: Span, deferred: Deferred[Outcome]) -> Deferred[Outcome]:
        traced: Deferred[Outcome] = Deferred()
        deferred.add_callback(lambda outcome: traced.resolve(self._on_resolved(span, outcome)))
        return traced

    def _on_resolved(self, span: Span, outcome: Outcome | BaseException) -> Outcome | BaseException:
        if isinstance(outcome, BaseException):
            self._tracing.end_span(span, code_of(outcome))
            return outcome
        return self._end(span, outcome)

    @contextlib.contextmanager
    def _activate(self, span: Span) -> Iterator[None]:
        """An exception inside ends the span; for an outcome `_end` does."""
        try:
            with self._tracing.activate(span):
                yield
        except BaseException as exc:  # a cancellation ends the span, too
            self._tracing.end_span(span, code_of(exc))
            raise

    def _end(self, span: Span, outcome: Outcome) -> Outcome:
        span.set_attribute("router.outcome", type(outcome).__name__.lower())
        error = outcome.fault.code if isinstance(outcome, Retry | Dead | Hold) else None
        if isinstance(outcome, Done) and outcome.effects:
            outcome = replace(
                outcome,
                effects=tuple(
                    self._tracing.trace_effect(effect, span) for effect in outcome.effects
                ),
            )
        self._tracing.end_span(span, error)
        return outcome
