"""SOLVER-Ralph's message contracts on JetStream: a typed envelope, published and consumed (SR).

    settings      its options
    subjects      the subject of each message
    topology      its streams
    publisher     publishes an envelope and returns its publish ack
    consumer      a durable; `handling` is the order of its work, `answers` a handler's return values, `processed` the stores of known keys
    dead_letters  messages that failed for good
    metrics       what is counted of all this
    queries       requests that are answered now or not at all
    version_usage     whether a consumer can still get an old version of the schema

`contracts.envelope` holds the envelope, `contracts.envelope_making` makes new ones; `router.Bus` gives all of this a connection.
"""

from __future__ import annotations

from router.bus.answers import BusAnswer, BusHandler, Nak, Term
from router.bus.consumer import DEFAULT_OPTIONS, Interest
from router.bus.metrics import BusMetrics
from router.bus.processed import BucketProcessed, MemoryProcessed, Processed, SqliteProcessed, StoreUnavailable
from router.bus.publisher import Publisher
from router.bus.queries import QueryRefused
from router.bus.settings import BusSettings
from router.bus.subjects import UnknownSubject
from router.contracts.envelope import MessageEnvelope
from router.contracts.envelope_making import make_envelope

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
