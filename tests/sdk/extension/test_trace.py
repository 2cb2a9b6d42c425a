"""Spans, where the author's process has OpenTelemetry; it is no dependency, so most machines skip most of this."""

import sys

import pytest

from router.extension import Refused, Request, pre
from router.sdk.extension.said import Failed
from router.sdk.extension.trace import NO_SPAN, SDK, tracing
from router.sdk.extension.work import Work
from tests.support.extension_author import a_request, data_of

PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


def refuses_hello(request: Request) -> None:
    if request.payload == "hello":
        raise Refused("secret")


def test_without_opentelemetry_there_is_no_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, SDK, raising=False)
    assert tracing(pre("mine")(refuses_hello))({}) is NO_SPAN


def test_a_span_has_the_callers_parent_and_an_errors_code_alone() -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry import trace as api
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), trace.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    api.set_tracer_provider(provider)
    work = Work(pre("mine")(refuses_hello))
    work.at_once(data_of(a_request("good day")), {"traceparent": PARENT})
    with pytest.raises(Failed):
        work.at_once(data_of(a_request("hello")), {"traceparent": PARENT})
    good, bad = exporter.get_finished_spans()
    assert (good.name, f"{good.parent.trace_id:x}", good.attributes["extension.id"]) == ("extension mine", "a" * 32, "mine")
    assert (bad.attributes["error.type"], bad.status.is_ok, bad.events) == ("refused", False, ())
