"""The metrics of the bus in a program that uses it; a program with a metrics page exposes
`registry`.

    router_bus_published_total{subject, code}      stored | duplicate, else the error's code
    router_bus_delivered_total{consumer}           deliveries that were begun
    router_bus_duplicates_total{consumer}          the key was known: the handler was not called, or
                                                   what it wrote was left out
    router_bus_violations_total{consumer, code}    could not be read; one of the codes of
                                                   docs/reference/contracts.md
    router_bus_dlq_total{consumer, reason}         dead letters that are stored
    router_bus_handler_seconds{consumer}           the handler alone, with any result

    HttpServer("127.0.0.1", 9464, metrics.registry, dict)      a page;  or `await metrics.registry.exposition()` in one of your own

Every label is bounded: the specification lists the subjects, and the program names its consumers.
"""

from __future__ import annotations

from router.core.message import Message
from router.core.outcome import MAXDELIVER_EXHAUSTED, Dead, Outcome, Retry
from router.delivery.consume.subscription import Observer
from router.process.observability import LabelledCounter, MetricRegistry
from router.process.observability.instruments import LabelledHistogram

STORED, DUPLICATE = "stored", "duplicate"


class BusMetrics:
    """The instruments of one program."""

    def __init__(self) -> None:
        self.published = LabelledCounter(
            "router_bus_published_total", "Publications, by what became of them", "subject", "code"
        )
        self.delivered = LabelledCounter(
            "router_bus_delivered_total", "Messages begun, each time they were", "consumer"
        )
        self.duplicates = LabelledCounter(
            "router_bus_duplicates_total", "Messages whose key was known already", "consumer"
        )
        self.violations = LabelledCounter(
            "router_bus_violations_total", "Messages that could not be read", "consumer", "code"
        )
        self.dead_letters = LabelledCounter(
            "router_bus_dlq_total", "Dead letters stored", "consumer", "reason"
        )
        self.handler_seconds = LabelledHistogram(
            "router_bus_handler_seconds",
            "From a handler's call to its answer, or to what it raised",
            "consumer",
        )
        self.registry = MetricRegistry()
        for instrument in (
            self.published,
            self.delivered,
            self.duplicates,
            self.violations,
            self.dead_letters,
            self.handler_seconds,
        ):
            self.registry.add(instrument)


class ConsumerMeter:
    """The series of one durable."""

    def __init__(self, metrics: BusMetrics, durable: str) -> None:
        self._metrics = metrics
        self._durable = durable
        self._seconds = metrics.handler_seconds[durable]

    def on_delivery(self) -> None:
        self._metrics.delivered[self._durable,] += 1

    def on_duplicate(self) -> None:
        self._metrics.duplicates[self._durable,] += 1

    def on_violation(self, code: str) -> None:
        self._metrics.violations[self._durable, code] += 1

    def on_handled(self, seconds: float) -> None:
        self._seconds.observe(seconds)

    def on_dead_letter(self, reason: str) -> None:
        self._metrics.dead_letters[self._durable, reason] += 1


class MeteringObserver:
    """A consumer's observer: counts the dead letters, and passes everything on to another observer."""

    def __init__(self, told: Observer, meter: ConsumerMeter) -> None:
        self._told = told
        self._meter = meter
        self.on_stored = told.on_stored
        self.on_unexpected_redelivery = told.on_unexpected_redelivery
        self.on_dead_letter_unstored = told.on_dead_letter_unstored
        self.on_flow = told.on_flow
        self.on_server_pause = told.on_server_pause
        self.on_storage = told.on_storage
        self.on_outage = told.on_outage
        self.on_storage_refused = told.on_storage_refused
        self.on_handler_error = told.on_handler_error

    def on_settled(self, message: Message, outcome: Outcome, is_final: bool) -> None:
        if isinstance(outcome, Dead):
            self._meter.on_dead_letter(outcome.reason)
        elif is_final and isinstance(outcome, Retry):  # its last
            self._meter.on_dead_letter(MAXDELIVER_EXHAUSTED)
        self._told.on_settled(message, outcome, is_final)
