"""Configures an OpenTelemetry SDK for a command of the router, if OpenTelemetry's own environment
variables ask for one.

    OTEL_EXPORTER_OTLP_ENDPOINT    a collector that takes OTLP over HTTP (or ..._TRACES_ENDPOINT)
    OTEL_TRACES_EXPORTER           otlp (when an endpoint is given) | console | none
    OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_SDK_DISABLED:
    as OpenTelemetry defines them

Without them nothing is imported and nothing is traced. A program that embeds the router and
configures its own TracerProvider does not need this file. The SDK is the extra `otel`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from router.core.errors import Misconfigured

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

OTLP = "otlp"
CONSOLE = "console"
EXPORTER = "OTEL_TRACES_EXPORTER"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
SUPPORTED_PROTOCOL = "http/protobuf"
SHUTDOWN_S = 2.0  # a collector that is unavailable must not delay a drain


@contextlib.contextmanager
def export_spans(environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Export spans while the context lasts, if the environment asks for it. Raises Misconfigured."""
    exporter = _read_exporter(environ)
    if exporter is None:
        yield
        return
    provider = _install_provider(exporter)
    try:
        yield
    finally:
        shutdown = threading.Thread(target=provider.shutdown, name="last-spans", daemon=True)
        shutdown.start()
        shutdown.join(SHUTDOWN_S)


def _read_exporter(environ: Mapping[str, str]) -> str | None:
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    named = environ.get(EXPORTER) or (
        OTLP if any(environ.get(name) for name in ENDPOINTS) else "none"
    )
    if named == "none":
        return None
    if named not in (OTLP, CONSOLE):
        raise Misconfigured(
            EXPORTER, f"{named!r} is not legal: it should be {OTLP}, {CONSOLE} or none"
        )
    if named == OTLP and environ.get(PROTOCOL, SUPPORTED_PROTOCOL) != SUPPORTED_PROTOCOL:
        raise Misconfigured(
            PROTOCOL,
            f"{environ[PROTOCOL]!r} is not legal: {SUPPORTED_PROTOCOL} is the supported protocol",
        )
    if (
        importlib.util.find_spec("opentelemetry") is None
        or importlib.util.find_spec("opentelemetry.sdk") is None
    ):
        variable = next(name for name in (EXPORTER, *ENDPOINTS) if environ.get(name))
        raise Misconfigured(
            variable, "traces need the extra `otel`: pip install 'beamline-router[otel]'"
        )
    return named


def _install_provider(exporter: str) -> TracerProvider:
    """The provider of the whole process."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    attributes = {
        SERVICE_NAME: os.environ.get("OTEL_SERVICE_NAME") or "router",
        SERVICE_INSTANCE_ID: f"{os.uname().nodename}:{os.getpid()}",
    }
    provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_create_exporter(exporter)))
    trace.set_tracer_provider(provider)
    return provider


def _create_exporter(name: str) -> Any:
    if name == CONSOLE:
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
