"""A span for each request, if the author's process has set up OpenTelemetry before it serves; else nothing, at no cost.

Streams have none: a span cannot be left from another context than it was entered in, and a generator may be.

The SDK is no dependency: it is looked for among the modules that are loaded. The caller's `traceparent` is the parent.
Neither what was asked nor what was raised goes into a span; of an error, its code.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from router.sdk.extension.author import Extension
from router.sdk.extension.said import Failed

SDK = "opentelemetry.sdk.trace"
NO_SPAN: AbstractContextManager[None] = contextlib.nullcontext()

Traced = Callable[[Mapping[str, str]], AbstractContextManager[None]]


def tracing(extension: Extension) -> Traced:
    """What to do a request in; it is given the request's headers."""
    if SDK not in sys.modules:
        return lambda _: NO_SPAN
    trace: Any = import_module("opentelemetry.trace")  # untyped here: it may not be installed
    extract = import_module("opentelemetry.propagate").extract
    tracer = trace.get_tracer("router.extension")
    told = {"extension.id": extension.id, "extension.type": extension.kind, "extension.version": extension.version}

    @contextlib.contextmanager
    def span(headers: Mapping[str, str]) -> Iterator[None]:
        asked = {"context": extract(headers), "kind": trace.SpanKind.SERVER, "attributes": told}
        quiet = {"record_exception": False, "set_status_on_exception": False}
        with tracer.start_as_current_span(f"extension {extension.id}", **asked, **quiet) as begun:
            try:
                yield
            except Failed as failed:
                begun.set_attribute("error.type", failed.code)
                begun.set_status(trace.StatusCode.ERROR)
                raise

    return span
