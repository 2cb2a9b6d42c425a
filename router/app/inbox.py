"""An inbox as a process: settings become a database, a connection, a handler; then all of it is supervised until told to stop.

    http      the pages for operators
    gauges    QRY-051 every few seconds, for /metrics
    inbox     the tree of `mailbox.inbox`

The handler is a function of yours, or the service at `inbox.handler.url` (`inbox_handler`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from router.app.connect import connect_by
from router.app.inbox_handler import service_of
from router.app.mailbox import database_of
from router.config import Settings
from router.delivery import topology
from router.delivery.api import JetStream
from router.delivery.consumer import Deadlines
from router.delivery.topology import Topology, bucket
from router.errors import Misconfigured
from router.mailbox.backlog import age_s, get_inbox_backlog
from router.mailbox.errors import DatabaseUnavailable
from router.mailbox.inbox.http_handler import HttpEventHandler
from router.mailbox.inbox.in_process import Handler
from router.mailbox.inbox.joined import Inbox
from router.mailbox.inbox.retention import InboxRetentionRules
from router.mailbox.inbox.rules import InboxRules, durable_of, inbox_streams
from router.mailbox.inbox.sweep import SweepRules
from router.mailbox.inbox.watch import InboxFigures
from router.mailbox.schema import require
from router.observability import Check, HttpServer, Metrics, events, logs, series
from router.supervision import Child, Helper, Intensity, Supervisor, failing, supervise

log = logs.logger(__name__)

GAUGES_EVERY_S = 5.0
RETENTION_EVERY_S = 600.0


class InboxService:
    """`run` until cancelled; then it drains."""

    def __init__(self, settings: Settings, handler: Handler | None = None) -> None:
        self.settings = settings
        self.rules = rules_of(settings)
        self.metrics = Metrics()
        self.metrics.ready.watch(lambda: series(self.readiness()))
        self._database = database_of(settings, "router inbox consume")
        self._handler = handler if handler is not None else service_of(settings)
        self._inbox: Inbox | None = None

    @property
    def figures(self) -> InboxFigures:
        """What it has done so far."""
        return self._inbox.watch.figures if self._inbox is not None else InboxFigures()

    async def run(self, on_ready: Callable[[str], None] = lambda _: None) -> None:
        """`on_ready` hears where the pages are. Raises Misconfigured, DatabaseUnavailable and BrokerUnavailable at the start."""
        async with self._joined() as inbox:
            self._inbox = inbox
            await inbox.open()
            self._watch(inbox)
            await supervise(self._tree(inbox, on_ready))

    def readiness(self) -> Mapping[str, Check]:
        if self._inbox is None:
            return {"inbox": Check(False, "not started")}
        health = self._inbox.consumer.health
        trouble = self._inbox.trouble
        handler = Check(trouble is None, trouble or "answering")
        return {"inbox": Check(health.is_ready, health.detail), "handler": handler}

    @asynccontextmanager
    async def _joined(self) -> AsyncIterator[Inbox]:
        async with self._database, contextlib.AsyncExitStack() as opened:
            await require(self._database)
            connection = await connect_by(self.settings.nats)
            opened.push_async_callback(connection.close)
            if isinstance(self._handler, HttpEventHandler):
                opened.push_async_callback(self._handler.close)
            jetstream = JetStream(connection, self.settings.nats.js_domain)
            await self._streams_there(jetstream)
            await self._tell_drift(jetstream)
            yield self._made(jetstream)

    def _made(self, jetstream: JetStream) -> Inbox:
        settings, keep = self.settings, self.settings.inbox.keep_ms / 1000
        return Inbox(
            self.rules,
            jetstream,
            self._database,
            self._handler,
            node_id=settings.node_id,
            starts_bucket=settings.buckets.starts.name,
            may_create=settings.topology == "create",
            sweep=SweepRules(every_s=settings.inbox.sweep_ms / 1000, older_than_s=settings.inbox.stranded_after_ms / 1000),
            retention=InboxRetentionRules(keep=keep, every=min(RETENTION_EVERY_S, keep / 4)),
            deadlines=Deadlines(settings.drain.soft_deadline_ms / 1000, settings.drain.hard_deadline_ms / 1000),
        )

    async def _streams_there(self, jetstream: JetStream) -> None:
        starts = self.settings.buckets.starts
        wanted = inbox_streams(self.rules, bucket(starts.name, ttl=starts.ttl_ms / 1000, history=starts.history, replicas=starts.replicas))
        if self.settings.topology == "create":
            await topology.create(jetstream, wanted)
        elif self.settings.topology == "check":
            for difference in await topology.compare(jetstream, wanted):
                raise Misconfigured("topology", f"{difference}: make it, or set topology = create")

    async def _tell_drift(self, jetstream: JetStream) -> None:
        """A durable that is there already is never changed in silence."""
        for difference in await topology.compare(jetstream, Topology((), (durable_of(self.rules),))):
            if difference.state == topology.DRIFTED:
                log.warning(events.TOPOLOGY_DRIFT, difference=str(difference), mend="delete the durable: rows know what was processed")

    def _tree(self, inbox: Inbox, on_ready: Callable[[str], None]) -> Supervisor:
        host, port = self.settings.http.host, self.settings.http.port
        http = HttpServer(host, port, self.metrics.registry, self.readiness)
        gauges = Helper("gauges", self._gauges)
        self.metrics.helper_failing.watch(lambda: failing((gauges, *inbox.helpers)))
        children = (
            Child("http", lambda: http.run(lambda bound: on_ready(f"http://{host}:{bound}"))),
            gauges.child,
            inbox.tree(),
        )
        return Supervisor("service", children, intensity=Intensity(5, 30))

    def _watch(self, inbox: Inbox) -> None:
        durable, metrics = self.rules.durable, self.metrics
        metrics.inbox_handled.watch(lambda: {(code,): count for code, count in inbox.watch.codes.items()})
        metrics.inbox_paused.watch(lambda: int((inbox.consumer.health.paused_for or inbox.trouble) is not None), durable)

    async def _gauges(self) -> None:
        """A helper: QRY-051 (SD-18)."""
        context = self.settings.mailbox.context
        while True:
            with contextlib.suppress(DatabaseUnavailable):  # the lane pauses, and says so
                async with self._database.transaction() as session:
                    backlog = await get_inbox_backlog(session)
                self.metrics.inbox_backlog.set(backlog.count, context)
                self.metrics.inbox_oldest_seconds.set(age_s(backlog), context)
            await asyncio.sleep(GAUGES_EVERY_S)


def rules_of(settings: Settings) -> InboxRules:
    """How the inbox is driven; what was not said follows from its source."""
    context, inbox = settings.mailbox.context, settings.inbox
    return InboxRules(
        context=context,
        stream=inbox.stream or f"{inbox.source.upper()}_EVENTS",
        durable=inbox.durable or f"{context}__from_{inbox.source}",
        filter_subject=inbox.filter_subject or f"{inbox.source}.event.>",
        ack_wait=inbox.ack_wait_ms / 1000,
        max_deliver=inbox.max_deliver,
        max_ack_pending=inbox.max_ack_pending,
        nak_after=inbox.nak_after_ms / 1000 if inbox.nak_after_ms is not None else None,
        handler_timeout=inbox.handler.timeout_ms / 1000,
        max_payload_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
    ).checked()
