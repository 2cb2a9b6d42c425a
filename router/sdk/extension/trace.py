"""A span for each request, if the author's process has set up OpenTelemetry before it serves; else nothing, at no cost.

Streams have none: a span cannot be left from another context than it was entered in, and a generator may be.

The caller's `traceparent` is the parent.
Neither what was asked nor what was raised goes into a span; of an error, its code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from router.observability import tracing as spans
from router.sdk.extension.author import Extension
from router.sdk.extension.results import RequestFailed

NO_SPAN: AbstractContextManager[None] = contextlib.nullcontext()

Traced = Callable[[Mapping[str, str]], AbstractContextManager[None]]


def build_tracer(extension: Extension) -> Traced:
    """What to do a request in; it is given the request's headers."""
    traced = spans.find_tracing()
    if traced is None:
        return lambda _: NO_SPAN
    told = {"extension.id": extension.id, "extension.type": extension.kind, "extension.version": extension.version}

    @contextlib.contextmanager
    def span(headers: Mapping[str, str]) -> Iterator[None]:
        error: str | None = None
        begun = traced.start_server_span(f"extension {extension.id}", headers, told)
        try:
            with traced.activate(begun):
                yield
        except RequestFailed as failed:
            error = failed.code
            raise
        finally:
            traced.end_span(begun, error)

    return span
