"""What an operator reads: log events, metrics, health pages and traces.

events logs log_rate_limit            log lines: their names, their form, their limits
bounds instruments metrics            metrics: bounded labels, the instruments, every metric by name
exposition readiness http             the pages /metrics, /healthz and /readyz
http_protocol                         how many connections that port takes, and for how long
tracing (_messages, _setup)           spans around handlers, calls and what they publish; none
                                      without an OpenTelemetry SDK
"""

from __future__ import annotations

from router.process.observability.bounds import OTHER, AllowedLabels, BoundedLabels
from router.process.observability.exposition import MetricRegistry, render
from router.process.observability.http import HttpServer
from router.process.observability.instruments import Counter, Gauge, Histogram, LabelledCounter
from router.process.observability.log_rate_limit import LogRateLimit
from router.process.observability.logs import configure, logger
from router.process.observability.metrics import Metrics, ParentMetrics
from router.process.observability.readiness import Readiness, ReadinessCheck, readiness_series

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
