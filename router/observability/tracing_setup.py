"""An OpenTelemetry SDK for a process of ours, if its surroundings ask for one by OpenTelemetry's own variables.

    OTEL_EXPORTER_OTLP_ENDPOINT    where a collector takes OTLP over HTTP (or ..._TRACES_ENDPOINT); spans are sent there
    OTEL_TRACES_EXPORTER           otlp (when an endpoint is given) | console | none
    OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_SDK_DISABLED: as OpenTelemetry says

Without them nothing is imported and nothing is traced. Whoever embeds the router and has a TracerProvider of his own needs
none of this. The SDK is the extra `otel`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from router.errors import Misconfigured

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

OTLP = "otlp"
CONSOLE = "console"
EXPORTER = "OTEL_TRACES_EXPORTER"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
SPOKEN = "http/protobuf"
LAST_SPANS_S = 2.0  # a collector that is away must not hold up a drain


@contextlib.contextmanager
def exporting(environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Spans are exported meanwhile, if that is asked for; the last of them at the end. Raises Misconfigured."""
    exporter = _wanted(environ)
    if exporter is None:
        yield
        return
    provider = _provider(exporter)
    try:
        yield
    finally:
        last = threading.Thread(target=provider.shutdown, name="last-spans", daemon=True)
        last.start()
        last.join(LAST_SPANS_S)


def _wanted(environ: Mapping[str, str]) -> str | None:
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    named = environ.get(EXPORTER) or (OTLP if any(environ.get(name) for name in ENDPOINTS) else "none")
    if named == "none":
        return None
    if named not in (OTLP, CONSOLE):
        raise Misconfigured(EXPORTER, f"{named!r} is not legal: it should be {OTLP}, {CONSOLE} or none")
    if named == OTLP and environ.get(PROTOCOL, SPOKEN) != SPOKEN:
        raise Misconfigured(PROTOCOL, f"{environ[PROTOCOL]!r} is not legal: {SPOKEN} is what is spoken here")
    if importlib.util.find_spec("opentelemetry") is None or importlib.util.find_spec("opentelemetry.sdk") is None:
        asked_by = next(name for name in (EXPORTER, *ENDPOINTS) if environ.get(name))
        raise Misconfigured(asked_by, "traces need the extra `otel`: pip install 'beamline-router[otel]'")
    return named


def _provider(exporter: str) -> TracerProvider:
    """In force for the whole process."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    ours = {SERVICE_NAME: os.environ.get("OTEL_SERVICE_NAME") or "router", SERVICE_INSTANCE_ID: f"{os.uname().nodename}:{os.getpid()}"}
    provider = TracerProvider(resource=Resource.create(ours), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_exporter(exporter)))
    trace.set_tracer_provider(provider)
    return provider


def _exporter(named: str) -> Any:
    if named == CONSOLE:
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
