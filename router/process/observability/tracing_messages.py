"""Traces for a consumer's messages: the handler runs inside a span, and its effects carry that
trace.

    handle = trace_handler(handle)              the same handler, unless an SDK is configured when
                                                the consumer is created
    dead_letter = trace_dead_letter(dead_letter)

The handler gets the message unchanged, so it does the same with an SDK as without.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from router.contracts.headers import TRACEPARENT
from router.core.deferred import Deferred
from router.core.message import Effect, Message
from router.core.outcome import Dead, Done, Fault, Handler, Hold, Outcome, Retry
from router.process.observability.tracing import Tracing, code_of, find_tracing

if TYPE_CHECKING:
    from opentelemetry.trace import Span

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
