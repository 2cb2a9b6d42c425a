"""The envelope bus for users' programs (SR).

    async with Bus() as bus:
        await bus.publish("LoopCreated", {"loop_id": "loop_1"}, message_id="evt_1",
        actor_id="user_1", actor_kind="HUMAN")

    async def project(envelope):
        return lambda cursor: cursor.execute("INSERT INTO loops VALUES (?)",
        (envelope.payload["loop_id"],))

    async with Bus() as bus:
        await bus.consume("projector", project, store="projector.db")     # until cancelled

The specification's variables (NATS_URL, NATS_STREAM_PREFIX …), a settings file, or the arguments
here say where it connects and what its streams are called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from router.bus import (
    BucketProcessed,
    BusHandler,
    BusMetrics,
    Interest,
    MemoryProcessed,
    Processed,
    Publisher,
    SqliteProcessed,
)
from router.bus.build_settings import build_bus_settings
from router.bus.consumer import DEFAULT_OPTIONS, EnvelopeProcessor, consumer_of, durable_of
from router.bus.metrics import ConsumerMeter
from router.bus.publisher import make_envelope
from router.bus.queries import QueryResponder, Responder, ask
from router.bus.subjects import EVENTS, apply_topology, declare_streams
from router.config.connect import connect_by
from router.contracts.envelope import MessageEnvelope
from router.core.errors import (
    BrokerDenied,
    BrokerUnavailable,
    ConnectionStuck,
    Misconfigured,
    RouterError,
)
from router.core.outcome import PublishAck
from router.delivery.publish.storing import open_publisher
from router.delivery.wire.api import JetStream
from router.delivery.wire.stuck import ConnectionWatchdog, watch_connections, watch_quietly
from router.delivery.wire.topology import MISSING, ConsumerSpec, Difference, Topology
from router.process.observability import events, logs
from router.process.supervision import Child, Intensity, Supervisor, supervise
from router.sdk.consumer_logger import BusConsumerLogger
from router.sdk.signals import run_until_signal

if TYPE_CHECKING:
    from router.config import Settings
    from router.delivery.consume.subscription import ConsumerOptions

log = logs.logger(__name__)

CONSUMER_CHECK_S = 0.25


class Bus:
    """One connection, for any number of publications, consumers and queries."""

    def __init__(self, nats_url: str | None = None, *, settings: Settings | None = None) -> None:
        """`settings`: already read ones; else they are read from the environment now. Raises
        Misconfigured.
        """
        from router.config import load

        self._all = settings or load(None, {"nats.url": nats_url}).settings
        self.settings = build_bus_settings(self._all)
        # of this connection; a program with a metrics page exposes `metrics.registry`
        self.metrics = BusMetrics()
        self._open = AsyncExitStack()
        self._jetstream: JetStream | None = None
        self._publisher: Publisher | None = None
        self._watchdog: ConnectionWatchdog | None = None

    async def __aenter__(self) -> Self:
        """Connect and create the streams (`topology = off`: assume that they exist). Raises
        BrokerUnavailable, BrokerRefused.
        """
        async with AsyncExitStack() as opened:
            connection = await connect_by(self._all.nats)
            opened.push_async_callback(connection.close)
            jetstream = JetStream(connection, self._all.nats.js_domain)
            if self._all.topology != "off":
                _tell(
                    await apply_topology(jetstream, self.settings, declare_streams(self.settings))
                )
            acked_publisher = await opened.enter_async_context(open_publisher(jetstream))
            self._watchdog = await opened.enter_async_context(watch_quietly(connection))
            self._publisher = Publisher(self.settings, connection, acked_publisher, self.metrics)
            self._jetstream = jetstream
            self._open = opened.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._jetstream = self._publisher = None
        await self._open.aclose()

    async def publish(
        self,
        message_type: str,
        payload: Mapping[str, object],
        *,
        message_id: str,
        actor_id: str,
        actor_kind: str,
        correlation_id: str | None = None,
        causation_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> PublishAck:
        """Store an event. The same event again, with its own `message_id`, is the same message:
        `is_duplicate` says so.

        Raises Malformed, Poison (too large), BrokerUnavailable (it may be stored: publish it
        again), ConnectionStuck, BrokerRefused.
        """
        made = make_envelope(
            message_type,
            payload,
            message_id=message_id,
            actor_id=actor_id,
            actor_kind=actor_kind,
            correlation_id=correlation_id,
            causation_id=causation_id,
            idempotency_key=idempotency_key,
        )
        return await self.publisher.event(made)

    @property
    def publisher(self) -> Publisher:
        """For envelopes that exist already, and for commands."""
        self._check_connection()
        if self._publisher is None:
            raise RouterError("the bus is not open: use it as `async with Bus() as bus`")
        return self._publisher

    @property
    def jetstream(self) -> JetStream:
        self._check_connection()
        if self._jetstream is None:
            raise RouterError("the bus is not open: use it as `async with Bus() as bus`")
        return self._jetstream

    def _check_connection(self) -> None:
        """Raises ConnectionStuck: a program that only publishes or asks is told by its next call,
        and goes on.
        """
        if (
            self._jetstream is not None
            and self._watchdog is not None
            and self._watchdog.cause is not None
        ):
            raise ConnectionStuck(
                f"{self._watchdog.cause}: leave this bus' block, and open another bus"
            )

    def shared_keys(self, name: str) -> BucketProcessed:
        """A `store` for `consume` in a key-value bucket: all processes of that name share the
        processed keys.
        """
        settings, bucket = self.settings, f"{self.settings.stream_prefix}-processed"
        return BucketProcessed(
            self.jetstream,
            bucket,
            settings.durable(name),
            ttl_s=settings.keys_ttl,
            replicas=settings.letters.replicas,
        )

    async def consume(
        self,
        name: str,
        handle: BusHandler,
        *,
        category: str = EVENTS,
        only: str | None = None,
        store: str | Path | Processed | None = None,
        options: ConsumerOptions = DEFAULT_OPTIONS,
    ) -> None:
        """Handle messages until cancelled, or until SIGTERM or Ctrl-C; then it drains. Processes of
        one `name` share the work.

        `only`: one domain (`loop`) or one command. `store`: a SQLite file for the processed keys,
        `shared_keys`, or None: this process' memory, which a restart forgets. Raises Misconfigured:
        the durable is there with another filter, `only` names nothing that there is, or the handler
        does not take an envelope or answers what means nothing; its messages stay in the stream.
        Raises BrokerDenied when this user may not see or make the durable.
        """
        durable = durable_of(
            self.settings, Interest(name=name, category=category, only=only), options
        )
        processed = self._store_at(store, durable.durable)
        handling = EnvelopeProcessor(
            self.settings, handle, processed, ConsumerMeter(self.metrics, durable.durable)
        )
        await run_until_signal(
            self._watch(self._consume(name, handling, durable, processed, options))
        )

    async def _consume(
        self,
        name: str,
        handling: EnvelopeProcessor,
        durable: ConsumerSpec,
        processed: Processed,
        options: ConsumerOptions,
    ) -> None:
        await self._durable_there(durable)
        await processed.open()
        try:
            consumer = consumer_of(
                self.settings,
                durable,
                handling,
                self.jetstream,
                options=options,
                observer=BusConsumerLogger(durable.durable),
            )
            children = (
                Child(name, consumer.run, shutdown_s=17.0),
                Child("handler", handling.wait_for_misuse),
            )
            await supervise(Supervisor("bus", children, intensity=Intensity(5, 30)))
        finally:
            await processed.close()

    async def _durable_there(self, durable: ConsumerSpec) -> None:
        """Create or check the durable, waiting for an unavailable broker. Raises Misconfigured,
        BrokerRefused, BrokerDenied.
        """
        while True:
            try:
                differences = await apply_topology(
                    self.jetstream, self.settings, Topology((), (durable,))
                )
            except BrokerDenied:
                raise  # waiting cannot help
            except BrokerUnavailable:
                await asyncio.sleep(CONSUMER_CHECK_S)
                continue
            for difference in differences:
                raise self._refuse(difference)
            return

    def _refuse(self, difference: Difference) -> Misconfigured:
        if difference.state != MISSING:
            return Misconfigured(
                "name", f"{difference}; choose another name, or delete that consumer"
            )
        return Misconfigured(
            "topology",
            f"{difference}, and topology={self._all.topology} creates nothing: run this "
            "consumer once with topology=create, as a user "
            "that may create it; `router bus topology --apply` makes the streams",
        )

    async def query(
        self,
        query: str,
        envelope: MessageEnvelope,
        *,
        timeout: float = 5.0,  # noqa: ASYNC109
    ) -> Mapping[str, object]:
        """Send a query, and wait `timeout` seconds for its response. Raises Unanswered,
        QueryRefused, BrokerUnavailable.
        """
        return await ask(self.jetstream.connection, self.settings, query, envelope, timeout)

    async def respond(self, query: str, respond: Responder) -> None:
        """Answer a query until cancelled, or until SIGTERM or Ctrl-C."""
        await run_until_signal(
            self._watch(
                QueryResponder(self.jetstream.connection, self.settings, query, respond).run()
            )
        )

    async def _watch(self, work: Coroutine[Any, Any, None]) -> None:
        """Raises ConnectionStuck when only a new process comes through to the broker."""
        with closing(work):
            async with watch_connections(self.jetstream.connection):
                await work

    def _store_at(self, store: str | Path | Processed | None, durable: str) -> Processed:
        if store is None:
            return MemoryProcessed(keep_s=self.settings.keys_ttl)
        return (
            SqliteProcessed(Path(store), durable, keep_s=self.settings.keys_ttl)
            if isinstance(store, str | Path)
            else store
        )


def _tell(differences: list[Difference]) -> None:
    for difference in differences:
        log.warning(events.TOPOLOGY_DRIFT, difference=str(difference))
