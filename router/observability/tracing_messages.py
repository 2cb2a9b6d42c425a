"""A lane whose messages are traced: the handler inside a span, and what it leaves bearing that span's trace.

    handle = traced_handler(handle)      the very same handler, unless an SDK is configured when the lane is made
    letter = traced_letter(letter)

The handler is given the very same message: what it may read of it, and what it makes of it, is the same with an SDK or without.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from router.contracts.headers import TRACEPARENT
from router.deferred import Deferred
from router.message import Effect, Message
from router.observability.tracing import Tracing, code_of, tracing
from router.outcome import Dead, Done, Fault, Handler, Hold, Outcome, Retry

if TYPE_CHECKING:
    from opentelemetry.trace import Span

Letter = Callable[[Message, str, Fault], Effect | None]


def traced_handler(handle: Handler) -> Handler:
    traced = tracing()
    return handle if traced is None else TracedHandler(traced, handle)


def traced_letter(letter: Letter) -> Letter:
    traced = tracing()
    if traced is None:
        return letter

    def written(message: Message, reason: str, fault: Fault) -> Effect | None:
        effect = letter(message, reason, fault)
        if effect is None:
            return None
        created = traced.created(effect, message.headers)
        # A letter is made to fit the server's limit with the headers that it has: one more might be one too many.
        return created if TRACEPARENT in effect.headers else effect

    return written


def traced_replay(effects: Sequence[Effect]) -> Sequence[Effect]:
    """What an operator sends again, each with a trace of its own."""
    traced = tracing()
    return effects if traced is None else [traced.replayed(effect) for effect in effects]


class TracedHandler:
    """A handler in a span, however its outcome comes: at once, by a call, or awaited."""

    def __init__(self, traced: Tracing, handle: Handler) -> None:
        self._traced = traced
        self._handle = handle

    def __call__(self, message: Message) -> Outcome | Awaitable[Outcome]:
        span = self._traced.process(message)
        with self._inside(span):
            outcome = self._handle(message)
        if isinstance(outcome, Deferred):
            return self._promised(span, outcome)
        return self._awaited(span, outcome) if isinstance(outcome, Awaitable) else self._ended(span, outcome)

    async def _awaited(self, span: Span, outcome: Awaitable[Outcome]) -> Outcome:
        with self._inside(span):
            came = await outcome
        return self._ended(span, came)

    def _promised(self, span: Span, outcome: Deferred[Outcome]) -> Deferred[Outcome]:
        later: Deferred[Outcome] = Deferred()
        outcome.tell(lambda came: later.come(self._came(span, came)))
        return later

    def _came(self, span: Span, came: Outcome | BaseException) -> Outcome | BaseException:
        if isinstance(came, BaseException):
            self._traced.ended(span, code_of(came))
            return came
        return self._ended(span, came)

    @contextlib.contextmanager
    def _inside(self, span: Span) -> Iterator[None]:
        """What it raises ends the span; a value is for `_ended`."""
        try:
            with self._traced.current(span):
                yield
        except BaseException as exc:  # a cancellation ends the span, too
            self._traced.ended(span, code_of(exc))
            raise

    def _ended(self, span: Span, outcome: Outcome) -> Outcome:
        span.set_attribute("router.outcome", type(outcome).__name__.lower())
        error = outcome.fault.code if isinstance(outcome, Retry | Dead | Hold) else None
        if isinstance(outcome, Done) and outcome.effects:
            outcome = replace(outcome, effects=tuple(self._traced.created(effect, span) for effect in outcome.effects))
        self._traced.ended(span, error)
        return outcome
