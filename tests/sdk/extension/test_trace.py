"""Spans of an author's functions, where the process has OpenTelemetry; else there is nothing."""

import pytest

from router.sdk.extension import Refused, Request, pre
from router.sdk.extension.function_runner import NO_SPAN, FunctionRunner, build_tracer
from router.sdk.extension.request import RequestFailed
from tests.support.extension_author import a_request, data_of
from tests.support.tracing import record_spans

PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


def refuses_hello(request: Request) -> None:
    if request.payload == "hello":
        raise Refused("secret")


def test_without_opentelemetry_there_is_no_span() -> None:
    assert build_tracer(pre("mine")(refuses_hello))({}) is NO_SPAN


def test_a_span_has_the_callers_parent_and_an_errors_code_alone() -> None:
    with record_spans() as spans:
        work = FunctionRunner(pre("mine")(refuses_hello))
        work.run_now(data_of(a_request("good day")), {"traceparent": PARENT})
        with pytest.raises(RequestFailed):
            work.run_now(data_of(a_request("hello")), {"traceparent": PARENT})
    good, bad = spans.all
    assert (good.name, f"{good.parent.trace_id:x}", good.attributes["extension.id"]) == (
        "extension mine",
        "a" * 32,
        "mine",
    )
    assert (bad.attributes["error.type"], bad.status.is_ok, bad.events) == ("refused", False, ())
