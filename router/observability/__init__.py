"""What an operator sees: event names, logs, metrics, and the port that shows them.

events masking once logs        what is said, and what is not
bounds instruments catalog      what is counted, by plain ints
exposition readiness http       how it is asked for
tracing (_messages, _setup)     spans around handlers, calls and what they leave; nothing without an OpenTelemetry SDK
"""

from __future__ import annotations

from router.observability.bounds import OTHER, Allowed, Bounded
from router.observability.catalog import Metrics, ParentMetrics
from router.observability.exposition import Registry, render
from router.observability.http import HttpServer
from router.observability.instruments import Count, Gauge, Spread, Tally
from router.observability.logs import configure, logger
from router.observability.once import Once
from router.observability.readiness import Check, Readiness, series

__all__ = [
    "OTHER",
    "Allowed",
    "Bounded",
    "Check",
    "Count",
    "Gauge",
    "HttpServer",
    "Metrics",
    "Once",
    "ParentMetrics",
    "Readiness",
    "Registry",
    "Spread",
    "Tally",
    "configure",
    "logger",
    "render",
    "series",
]
