"""SOLVER-Ralph's message contracts on JetStream: a typed envelope, published and consumed (SR).

    settings      its options
    subjects      the subject of each message, and the streams
    publisher     publishes an envelope and returns its publish ack
    consumer      a durable, the order of its work, a handler's return values; `processed`: the
                  stores of known keys
    dead_letters  messages that failed for good
    metrics       what is counted of all this
    queries       requests that are answered now or not at all
    version_usage     whether a consumer can still get an old version of the schema

`contracts.envelope` holds the envelope, `bus.publisher` makes new ones; `router.Bus` gives
all of this a connection. Each name is loaded at its first use: who reads the settings of the bus
does not pay for its consumer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.bus.consumer import DEFAULT_OPTIONS, BusAnswer, BusHandler, Interest, Nak, Term
    from router.bus.metrics import BusMetrics
    from router.bus.processed import (
        BucketProcessed,
        MemoryProcessed,
        Processed,
        SqliteProcessed,
        StoreUnavailable,
    )
    from router.bus.publisher import Publisher, make_envelope
    from router.bus.queries import QueryRefused
    from router.bus.settings import BusSettings
    from router.bus.subjects import UnknownSubject
    from router.contracts.envelope import MessageEnvelope

__all__ = [
    "DEFAULT_OPTIONS",
    "BucketProcessed",
    "BusAnswer",
    "BusHandler",
    "BusMetrics",
    "BusSettings",
    "Interest",
    "MemoryProcessed",
    "MessageEnvelope",
    "Nak",
    "Processed",
    "Publisher",
    "QueryRefused",
    "SqliteProcessed",
    "StoreUnavailable",
    "Term",
    "UnknownSubject",
    "make_envelope",
]

_HOMES = {
    "BucketProcessed": "router.bus.processed",
    "BusAnswer": "router.bus.consumer",
    "BusHandler": "router.bus.consumer",
    "BusMetrics": "router.bus.metrics",
    "BusSettings": "router.bus.settings",
    "DEFAULT_OPTIONS": "router.bus.consumer",
    "Interest": "router.bus.consumer",
    "MemoryProcessed": "router.bus.processed",
    "MessageEnvelope": "router.contracts.envelope",
    "Nak": "router.bus.consumer",
    "Processed": "router.bus.processed",
    "Publisher": "router.bus.publisher",
    "QueryRefused": "router.bus.queries",
    "SqliteProcessed": "router.bus.processed",
    "StoreUnavailable": "router.bus.processed",
    "Term": "router.bus.consumer",
    "UnknownSubject": "router.bus.subjects",
    "make_envelope": "router.bus.publisher",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
