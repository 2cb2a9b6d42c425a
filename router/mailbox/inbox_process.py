"""An inbox as a process: its database, connection and handler under one supervision tree.

    http      the pages for operators
    gauges    QRY-051 every few seconds, for /metrics
    inbox     the tree of `mailbox.inbox`

The handler is a function of the user, or the service at `inbox.handler.url` (`service_of`), behind
a circuit breaker.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from router.config import Settings
from router.config.connect import connect_by
from router.core.breakers import BreakerRules, CallPermit, CircuitBreaker
from router.core.clock import steady
from router.core.errors import Misconfigured
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import NANOS_PER_S, Topology
from router.mailbox.backlog import age_s, get_inbox_backlog
from router.mailbox.database_watch import DatabaseWatch
from router.mailbox.inbox.handling import HandlerPermit
from router.mailbox.inbox.http_handler import HttpEventHandler
from router.mailbox.inbox.inbox import Inbox
from router.mailbox.inbox.observer import InboxStats
from router.mailbox.inbox.rules import check_names, durable_name_of, durable_of, inbox_streams
from router.mailbox.inbox.transactional_strategy import Handler, check_handler
from router.mailbox.relay_process import database_of
from router.mailbox.schema import require
from router.mailbox.settings import HandlerConfig
from router.mailbox.streams import DriftWatch
from router.operate.topology.declared_topology import (
    declare_advisories_stream,
    declare_attempts_bucket,
)
from router.process.observability import Metrics, ReadinessCheck, events, logs, readiness_series
from router.process.supervision import Helper, Intensity, Supervisor, helper_states
from router.shell.host import HeldConnection, ProcessHost

# -- The process.

log = logs.logger(__name__)

GAUGES_EVERY_S = 5.0
REMEDY = "change the setting or the stream; a durable: delete it, rows know what was processed"


class InboxService:
    """`run` until cancelled; then it drains."""

    def __init__(self, settings: Settings, handler: Handler | None = None) -> None:
        """Raises Misconfigured for a handler that could not be called, or where none is named."""
        if handler is not None:
            check_handler(handler)
        self.settings = settings
        check_names(settings)
        self.stream, self.durable = settings.inbox.events_stream, durable_name_of(settings)
        self.metrics = Metrics()
        self.metrics.ready.set_function(lambda: readiness_series(self.readiness()))
        self._host = ProcessHost()
        self._database = database_of(settings, "router inbox consume")
        self._handler = handler if handler is not None else service_of(settings)
        self._inbox: Inbox | None = None
        self._drift: DriftWatch | None = None
        self._database_watch = DatabaseWatch()  # it looks with the gauges, so it needs no message

    @property
    def figures(self) -> InboxStats:
        """The counts so far."""
        return self._inbox.observer.stats if self._inbox is not None else InboxStats()

    async def run(self, on_ready: Callable[[str], None] = lambda _: None) -> None:
        """`on_ready` gets the address of the pages, once the durable is there.

        Raises Misconfigured, DatabaseUnavailable and BrokerUnavailable at the start,
        ConnectionStuck later.
        """
        async with self._open() as inbox:
            await inbox.open()
            self._inbox = inbox
            self._register_gauges(inbox)
            # What is published from now on is delivered: the durable is there, and a new one begins
            # where its settings say.
            await self._host.run(
                self._tree(inbox),
                lambda: on_ready(self._host.url),
                lambda: inbox.consumer.health.is_there,
            )

    def readiness(self) -> Mapping[str, ReadinessCheck]:
        if self._inbox is None:
            return {"inbox": ReadinessCheck(False, "not started")}
        health = self._inbox.consumer.health
        trouble = self._inbox.trouble
        handler = ReadinessCheck(trouble is None, trouble or "answering")
        topology = {"topology": self._drift.check} if self._drift is not None else {}
        inbox = ReadinessCheck(health.is_ready, health.detail)
        return {
            "inbox": inbox,
            "handler": handler,
            "database": self._database_watch.check,
            **topology,
        }

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Inbox]:
        held = HeldConnection(partial(connect_by, self.settings.nats), "inbox")
        async with self._database, AsyncExitStack() as opened:
            await require(self._database)
            (connection,) = await opened.enter_async_context(self._host.hold(held))
            if isinstance(self._handler, HttpEventHandler):
                opened.push_async_callback(self._handler.close)
            jetstream = JetStream(connection, self.settings.nats.js_domain)
            await self._ensure_streams(jetstream)
            self._drift = DriftWatch(jetstream, self._declared, REMEDY)
            await self._drift.look()
            await self._warn_of_in_flight(jetstream)
            yield self._build_inbox(jetstream)

    def _build_inbox(self, jetstream: JetStream) -> Inbox:
        return Inbox(self.settings, jetstream, self._database, self._handler)

    @property
    def _declared(self) -> Topology:
        """Its own streams, and its durable on the stream of the publisher."""
        return Topology(self._streams.streams, (durable_of(self.settings),))

    @property
    def _streams(self) -> Topology:
        shared = (declare_advisories_stream(self.settings), declare_attempts_bucket(self.settings))
        return inbox_streams(self.settings, *shared)

    async def _ensure_streams(self, jetstream: JetStream) -> None:
        wanted = self._streams
        if self.settings.topology == "create":
            await topology.create(jetstream, wanted)
        elif self.settings.topology == "check":
            for difference in await topology.compare(jetstream, wanted):
                raise Misconfigured("topology", f"{difference}: make it, or set topology = create")

    async def _warn_of_in_flight(self, jetstream: JetStream) -> None:
        """Log messages in flight in another process: they are redelivered here only after the ack
        wait, if that process died.
        """
        info = await jetstream.consumer(self.stream, self.durable)
        if info is not None and (in_hand := info["num_ack_pending"]):
            at_most_s = info["config"]["ack_wait"] / NANOS_PER_S
            log.warning(
                events.INBOX_WAITS,
                consumer=self.durable,
                in_hand=in_hand,
                at_most_s=at_most_s,
                setting="inbox.ack_wait_ms",
            )

    def _tree(self, inbox: Inbox) -> Supervisor:
        http = self.settings.http
        gauges = Helper("gauges", self._gauges)
        helpers = (
            gauges,
            *(
                (Helper("drift", self._drift.run),)
                if self._drift is not None and self.settings.topology != "off"
                else ()
            ),
        )
        self.metrics.helper_failing.set_function(lambda: helper_states((*helpers, *inbox.helpers)))
        children = (
            self._host.pages(http.host, http.port, self.metrics.registry, self.readiness),
            *(helper.child for helper in helpers),
            inbox.tree(),
        )
        return Supervisor("service", children, intensity=Intensity(5, 30))

    def _register_gauges(self, inbox: Inbox) -> None:
        durable, metrics = self.durable, self.metrics
        metrics.inbox_handled.set_function(
            lambda: {(code,): count for code, count in inbox.observer.codes.items()}
        )
        metrics.inbox_paused.set_function(
            lambda: int((inbox.consumer.health.paused_for or inbox.trouble) is not None), durable
        )

    async def _gauges(self) -> None:
        """A helper: QRY-051 (docs/reference/requirements.md#sd-18), and whether the database
        answers.
        """
        context = self.settings.mailbox.context
        while True:
            with self._database_watch.look():
                async with self._database.transaction() as session:
                    backlog = await get_inbox_backlog(session)
                self.metrics.inbox_backlog.set(backlog.count, context)
                self.metrics.inbox_oldest_seconds.set(age_s(backlog), context)
            await asyncio.sleep(GAUGES_EVERY_S)


# -- The service that handles the events, as the settings name it.


def service_of(settings: Settings) -> HttpEventHandler:
    """The service at `inbox.handler.url`. Raises Misconfigured when none is named."""
    handler = settings.inbox.handler
    breaker = HandlerBreaker(CircuitBreaker("inbox.handler", _breaker_rules(handler)))
    return HttpEventHandler(
        handler, breaker, max_payload_bytes=settings.max_payload_bytes, max_depth=settings.max_depth
    )


def _breaker_rules(handler: HandlerConfig) -> BreakerRules:
    return BreakerRules(
        failure_threshold=handler.failures,
        timeout_s=handler.rest_ms / 1000,
        error_rate_threshold=handler.error_rate_threshold,
        error_rate_window_s=handler.error_rate_window_ms / 1000,
        minimum_calls=handler.minimum_calls,
    )


class HandlerBreaker:
    """`mailbox.inbox.handling.RemoteBreaker` over a circuit breaker."""

    def __init__(self, breaker: CircuitBreaker) -> None:
        self._breaker = breaker

    @property
    def is_open(self) -> bool:
        return self._breaker.block_end() > steady()

    def acquire(self, seconds: float) -> HandlerPermit | None:
        permit = self._breaker.acquire(seconds)
        return _Permit(self._breaker, permit) if permit is not None else None


class _Permit:
    def __init__(self, breaker: CircuitBreaker, permit: CallPermit) -> None:
        self._breaker = breaker
        self._permit = permit

    def record_success(self, latency_ms: float) -> None:
        self._breaker.record_success(self._permit, latency_ms)

    def record_failure(self) -> None:
        self._breaker.record_failure(self._permit)

    def release(self) -> None:
        self._breaker.release(self._permit)
