"""A span for each request, if the author's process has set up OpenTelemetry before it serves; else nothing, at no cost.

Streams have none: a span must be left in the context in which it was entered, and a generator may leave it in another.

The caller's `traceparent` is the parent.
A span holds neither the request nor the exception; of an error, its code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from router.process.observability import tracing as spans
from router.sdk.extension.author import Extension
from router.sdk.extension.results import RequestFailed

NO_SPAN: AbstractContextManager[None] = contextlib.nullcontext()

Traced = Callable[[Mapping[str, str]], AbstractContextManager[None]]


def build_tracer(extension: Extension) -> Traced:
    """Return a context manager for requests; it gets the request's headers."""
    traced = spans.find_tracing()
    if traced is None:
        return lambda _: NO_SPAN
    attributes = {"extension.id": extension.id, "extension.type": extension.kind, "extension.version": extension.version}

    @contextlib.contextmanager
    def span(headers: Mapping[str, str]) -> Iterator[None]:
        error: str | None = None
        begun = traced.start_server_span(f"extension {extension.id}", headers, attributes)
        try:
            with traced.activate(begun):
                yield
        except RequestFailed as failed:
            error = failed.code
            raise
        finally:
            traced.end_span(begun, error)

    return span
