"""The outbox relay as a process: its database, stream and publisher under one supervision tree.

relay        publishes the outbox of one context
retention    deletes published rows
gauges       QRY-050 every few seconds, for /metrics
http         the pages for operators
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from uuid import UUID

from router.config import Settings
from router.config.connect import connect_by
from router.core.errors import BrokerRefused, Misconfigured
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import Topology
from router.mailbox.backlog import age_s, get_outbox_backlog
from router.mailbox.database_watch import DatabaseWatch
from router.mailbox.outbox.add import EventEncoder
from router.mailbox.outbox.broker_loss import read_stream_snapshot
from router.mailbox.outbox.nats_publisher import open_nats_publisher
from router.mailbox.outbox.one_event import PublishedEvent, publish_one
from router.mailbox.outbox.publisher import OutboxPublisher
from router.mailbox.outbox.relay_batch import RelayReport
from router.mailbox.outbox.repository import OutboxRetention, count_parked
from router.mailbox.postgres import Database, DatabaseConfig, Session
from router.mailbox.schema import require
from router.mailbox.streams import DriftWatch, events_stream
from router.process.observability import Metrics, ReadinessCheck, readiness_series
from router.process.supervision import Child, Helper, Intensity, Supervisor, helper_states
from router.shell.host import HeldConnection, ProcessHost

GAUGES_EVERY_S = 5.0


def database_of(settings: Settings, application: str = "router") -> Database:
    """The context's database, not yet opened. Raises Misconfigured when none is named."""
    mailbox = settings.mailbox
    if mailbox.dsn is None:
        raise Misconfigured(
            "mailbox.dsn",
            "must name the context's database, like postgresql://user@host:5432/database",
        )
    return Database(
        DatabaseConfig(
            mailbox.dsn.get_secret_value(),
            schema=mailbox.db_schema,
            connections=mailbox.connections,
            application=application,
        )
    )


@asynccontextmanager
async def tables_of(settings: Settings) -> AsyncIterator[Session]:
    """A transaction of the context's database, once its tables are those of this version. Raises
    Misconfigured, DatabaseUnavailable.
    """
    async with database_of(settings) as database:
        await require(database)
        async with database.transaction() as session:
            yield session


def declared_events(settings: Settings) -> Topology:
    """The stream of the context's events."""
    mailbox, events = settings.mailbox, settings.mailbox.events
    stream = events_stream(
        mailbox.context,
        mailbox.events_stream,
        max_age=events.max_age_ms / 1000,
        max_bytes=events.max_bytes,
        window=events.duplicate_window_ms / 1000,
        replicas=events.replicas,
    )
    return Topology(streams=(stream,))


async def publish_event(settings: Settings, event_id: UUID) -> PublishedEvent:
    """CMD-050: publish this event now. Raises Misconfigured, BrokerUnavailable,
    DatabaseUnavailable.
    """
    mailbox = settings.mailbox
    async with database_of(settings, "router outbox publish") as database:
        await require(database)
        connection = await connect_by(settings.nats)
        try:
            jetstream = JetStream(connection, settings.nats.js_domain)
            snapshot, encoder = (
                await read_stream_snapshot(jetstream, mailbox.events_stream),
                EventEncoder(mailbox.context, connection.max_payload),
            )
            async with (
                open_nats_publisher(jetstream, is_atomic=False) as publisher,
                database.transaction() as session,
            ):
                publisher.set_subjects(snapshot.subjects)
                return await publish_one(
                    session,
                    publisher,
                    encoder,
                    event_id,
                    stream_created=snapshot.created,
                    relay=mailbox.relay,
                )
        finally:
            await connection.close()


async def ensure_events(jetstream: JetStream, settings: Settings) -> None:
    """Create the stream if `topology = create`. Raises Misconfigured, with the setting, when the
    server refuses it.
    """
    if settings.topology != "create":
        return
    try:
        await topology.create(jetstream, declared_events(settings))
    except BrokerRefused as exc:
        raise Misconfigured(
            "mailbox.events", f"{exc}; if the server lacks room, lower max_bytes or replicas"
        ) from exc


class RelayService:
    """One relay process. `run` works until it is cancelled, and finishes the current batch first."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics(label_limit=settings.metrics.label_limit)
        self.relay: OutboxPublisher | None = None
        self.metrics.ready.set_function(lambda: readiness_series(self.readiness()))
        self._host = ProcessHost()
        self._database = database_of(settings, "router outbox relay")
        self._drift: DriftWatch | None = None
        self._database_watch = DatabaseWatch()

    async def run(self, on_ready: Callable[[str], None] = lambda _: None) -> None:
        """Serve; `on_ready` gets the address of the pages, once they are served.

        Raises Misconfigured, BrokerUnavailable, DatabaseUnavailable at the start, ConnectionStuck
        later.
        """
        async with self._open() as relay:
            self.relay = relay
            self._register_gauges(relay)
            await self._host.run(self._tree(relay), lambda: on_ready(self._host.url))

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[OutboxPublisher]:
        held = HeldConnection(partial(connect_by, self.settings.nats), "relay")
        async with self._database as database:
            await require(database)
            async with self._host.hold(held) as (connection,):
                jetstream = JetStream(connection, self.settings.nats.js_domain)
                await ensure_events(jetstream, self.settings)
                self._drift = DriftWatch(
                    jetstream,
                    declared_events(self.settings),
                    "change mailbox.events.* or the stream",
                )
                await self._drift.look()
                yield OutboxPublisher(
                    self.settings.mailbox,
                    database,
                    jetstream,
                    lambda: ensure_events(jetstream, self.settings),
                )

    def _tree(self, relay: OutboxPublisher) -> Supervisor:
        settings, http = self.settings, self.settings.http
        retention = OutboxRetention(self._database, settings.mailbox.relay.keep_ms / 1000)
        drift = (
            (Helper("drift", self._drift.run),)
            if self._drift is not None and settings.topology != "off"
            else ()
        )
        helpers = (
            Helper("gauges", self._gauges),
            Helper("retention", retention.run),
            Helper("integrity_scan", relay.integrity_scan.run),
            *drift,
        )
        self.metrics.helper_failing.set_function(lambda: helper_states(helpers))
        children = (
            self._host.pages(http.host, http.port, self.metrics.registry, self.readiness),
            *(helper.child for helper in helpers),
            Child("relay", relay.run, shutdown_s=settings.drain.hard_deadline_ms / 1000),
        )
        return Supervisor("outbox", children, intensity=Intensity(30, 60))

    def readiness(self) -> Mapping[str, ReadinessCheck]:
        trouble = self.relay.trouble if self.relay is not None else "not started"
        topology = {"topology": self._drift.check} if self._drift is not None else {}
        return {
            "relay": ReadinessCheck(trouble is None, trouble or "publishing"),
            "database": self._database_watch.check,
            **topology,
        }

    def _register_gauges(self, relay: OutboxPublisher) -> None:
        context, metrics = self.settings.mailbox.context, self.metrics
        metrics.outbox_paused.set_function(lambda: int(relay.trouble is not None), context)
        metrics.outbox_taken_back.set_function(lambda: relay.totals.lost, context)
        relay.on_batch = self._on_batch

    def _on_batch(self, report: RelayReport) -> None:
        for kind, count in report.kinds.items():
            self.metrics.outbox_published[self.metrics.event_type[kind],] += count

    async def _gauges(self) -> None:
        """A helper: QRY-050, and how many are parked."""
        context = self.settings.mailbox.context
        while True:
            with self._database_watch.look():
                async with self._database.transaction() as session:
                    backlog, parked = await get_outbox_backlog(session), await count_parked(session)
                self.metrics.outbox_backlog.set(backlog.count, context)
                self.metrics.outbox_oldest_seconds.set(age_s(backlog), context)
                self.metrics.outbox_parked.set(parked, context)
            await asyncio.sleep(GAUGES_EVERY_S)
