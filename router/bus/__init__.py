"""SOLVER-Ralph's message contracts on JetStream: a typed envelope, published and consumed (SR).

    settings    what it is set by
    subjects    which subject a message goes to
    topology    its streams
    publisher   an envelope in, its receipt out
    consumer    a durable; `handling` is the order of its work, `answers` what a handler may say, `processed` which keys it knows
    letters     what failed for good
    metrics     what is counted of all this
    queries     questions, answered now or not at all
    drained     whether an old version of the schema can still be met

The envelope itself stands in `contracts.envelope`, new ones come from `contracts.envelope_making`; `router.Bus` joins all of
this with a connection.
"""

from __future__ import annotations

from router.bus.answers import BusAnswer, BusHandler, Nak, Term
from router.bus.consumer import PACE, Interest
from router.bus.metrics import BusMetrics
from router.bus.processed import BucketProcessed, MemoryProcessed, Processed, SqliteProcessed, StoreUnavailable
from router.bus.publisher import Publisher
from router.bus.queries import QueryRefused
from router.bus.settings import BusSettings
from router.bus.subjects import UnknownSubject
from router.contracts.envelope import MessageEnvelope
from router.contracts.envelope_making import make_envelope

__all__ = [
    "PACE",
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
