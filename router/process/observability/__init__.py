"""What an operator reads: log events, metrics, health pages and traces.

events logs log_sink                  log lines: their names, their form, their limits
instruments metrics loop_stalls       metrics: the instruments, bounded labels, every metric by
                                      name; what holds the event loop
exposition http                       the pages /metrics, /healthz and /readyz; how many connections
                                      that port takes, and for how long
tracing tracing_setup                 spans around handlers, calls and what they publish; none
                                      without an OpenTelemetry SDK
"""

from __future__ import annotations

from router.process.observability.exposition import MetricRegistry, render
from router.process.observability.http import (
    HttpServer,
    Readiness,
    ReadinessCheck,
    readiness_series,
)
from router.process.observability.instruments import (
    OTHER,
    AllowedLabels,
    BoundedLabels,
    Counter,
    Gauge,
    Histogram,
    LabelledCounter,
)
from router.process.observability.log_sink import LogRateLimit
from router.process.observability.logs import configure, logger
from router.process.observability.metrics import Metrics, ParentMetrics

__all__ = [
    "OTHER",
    "AllowedLabels",
    "BoundedLabels",
    "Counter",
    "Gauge",
    "Histogram",
    "HttpServer",
    "LabelledCounter",
    "LogRateLimit",
    "MetricRegistry",
    "Metrics",
    "ParentMetrics",
    "Readiness",
    "ReadinessCheck",
    "configure",
    "logger",
    "readiness_series",
    "render",
]
