"""OpenTelemetry's own variables switch the export of traces on; without them nothing is traced."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.util._once import Once

from router.core.errors import Misconfigured
from router.process.observability.tracing import find_tracing, trace_request
from router.process.observability.tracing_setup import ENDPOINTS, export_spans


class Collector(HTTPServer):
    """Takes OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Posted)
        self.heard: list[ExportTraceServiceRequest] = []


class Posted(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        self.server.heard.append(
            ExportTraceServiceRequest.FromString(
                self.rfile.read(int(self.headers["Content-Length"]))
            )
        )
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """And a process in which no provider is in force yet."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    collector = Collector()
    thread = threading.Thread(target=collector.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield collector
    collector.shutdown()
    thread.join()
    collector.server_close()


def test_an_endpoint_is_all_that_it_takes(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "night-shift")
    with export_spans():
        assert find_tracing() is not None
        with trace_request("x.y", {}):
            pass
    (request,) = collector.heard  # sent by the end, whatever the batch's own time
    (resource,) = request.resource_spans
    named = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert named["service.name"] == "night-shift"
    assert [span.name for scope in resource.scope_spans for span in scope.spans] == ["send x.y"]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_SERVICE_NAME": "router"},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
    ],
)
def test_without_a_request_nothing_is_traced(environ: dict[str, str]) -> None:
    with export_spans(environ):
        assert find_tracing() is None


@pytest.mark.parametrize(
    ("environ", "setting"),
    [
        ({"OTEL_TRACES_EXPORTER": "jaeger"}, "OTEL_TRACES_EXPORTER"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(environ: dict[str, str], setting: str) -> None:
    with pytest.raises(Misconfigured, match="is not legal") as refused, export_spans(environ):
        pass
    assert refused.value.setting == setting


@pytest.mark.parametrize("asked_by", ENDPOINTS)
def test_a_missing_sdk_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, asked_by: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with (
        pytest.raises(Misconfigured, match=r"pip install 'beamline-router\[otel\]'") as refused,
        export_spans({asked_by: "http://127.0.0.1:1"}),
    ):
        pass
    assert refused.value.setting == asked_by
