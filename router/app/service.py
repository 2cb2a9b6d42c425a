"""The whole router: rooms joined, one supervision tree, a start and an end.

start   connect, topology, policies; then the tree, first child first
ready   connected, streams and consumers as declared, pulling, no lane paused
end     the tree, last child first: the lane drains, the listener leaves, HTTP closes; then the connection
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from router.app.connect import connect_by
from router.app.decide_lane import decide_answers, decide_lane
from router.app.declared import declared
from router.app.meters import LaneMetrics
from router.app.policies import PolicyDirectory
from router.app.survey import Survey
from router.config import Settings
from router.delivery.answers import Answers
from router.delivery.api import JetStream
from router.delivery.connection import Connection
from router.delivery.consumer import Consumer, Deadlines
from router.delivery.listen import Listener
from router.observability import Check, HttpServer, Metrics, events, logs
from router.policy import Shelf
from router.supervision import Child, Intensity, Strategy, Supervisor, supervise

log = logs.logger(__name__)


class Ready(Struct, frozen=True):
    """Where a ready router is found."""

    nats_url: str
    http: str


class RouterService:
    """One router process. `run` serves until it is cancelled."""

    def __init__(self, settings: Settings, *, policies_dir: Path | None = None) -> None:
        self.settings = settings
        self.metrics = Metrics(settings.metrics.tenant_label_allowlist, settings.metrics.label_limit)
        self.shelf = Shelf()
        root = policies_dir or settings.policies.dir
        self._policies = PolicyDirectory(root, self.shelf) if root is not None else None
        self._observer = LaneMetrics(self.metrics, settings.decide.durable, settings)
        self._survey: Survey | None = None
        self._is_stopping = False
        self._http_port = 0
        self._connection: Connection | None = None
        self._consumer: Consumer | None = None
        self._answers: Answers | None = None

    async def run(self, on_ready: Callable[[Ready], None] = lambda _: None) -> None:
        """Serve. Raises Misconfigured or BrokerUnavailable when it cannot begin, SupervisionFailed when it cannot go on."""
        log.info(events.ROUTER_STARTING, node_id=self.settings.node_id)
        if self._policies is not None:
            self._policies.load()
        if not self.shelf.all():
            log.warning(events.POLICY_WARNING, warning="no policy is loaded: every request will be answered policy_not_found")
        connection = self._connection = await connect_by(self.settings.nats, on_lost=self._lost, on_back=self._back)
        connection.on_fault = lambda exc: log.error(events.BROKER_ERROR, exc_info=exc)
        try:
            jetstream = JetStream(connection, self.settings.nats.js_domain)
            survey = self._surveying(jetstream)
            await survey.ensure()
            announcing = asyncio.create_task(self._announce(on_ready))
            try:
                await supervise(self._tree(survey))
            finally:
                announcing.cancel()
        finally:
            self._is_stopping = True
            with contextlib.suppress(Exception):  # the end must not fail on a connection that is gone already
                await connection.close()
            log.info(events.ROUTER_STOPPED)

    def tree(self) -> Supervisor:
        """The supervision tree, for who wants to look at it: nothing is started by it."""
        return self._tree(self._surveying(JetStream(Connection())))

    # -- the tree ------------------------------------------------------------------------------------------------

    def _surveying(self, jetstream: JetStream) -> Survey:
        mode = self.settings.topology
        self._survey = Survey(jetstream, declared(self.settings), self.metrics, lambda _: self._observer.newest_ns, mode=mode)
        return self._survey

    def _tree(self, survey: Survey) -> Supervisor:
        jetstream = survey.jetstream
        stop_s = self.settings.drain.hard_deadline_ms / 1000 + 2
        operators = HttpServer(self.settings.http.host, self.settings.http.port, self.metrics.registry, self.readiness)
        decide = [Child("consumer", lambda: self._consume(jetstream, survey), shutdown_s=stop_s)]
        if self._listens:
            decide.insert(0, Child("listener", lambda: self._listen(jetstream)))
        children: list[Child | Supervisor] = [Child("http", lambda: operators.run(self._bound))]
        if self._policies is not None:
            children.append(Child("policies", self._policies.run))
        children.append(Child("survey", survey.run))
        children.append(Supervisor("decide", tuple(decide), Strategy.REST_FOR_ONE, Intensity(5, 30)))
        return Supervisor("router", tuple(children), Strategy.ONE_FOR_ONE, Intensity(5, 30))

    @property
    def _listens(self) -> bool:
        return self.settings.reply.listener and self.settings.reply.confirm == "decision"

    async def _listen(self, jetstream: JetStream) -> None:
        await Listener(jetstream, self.settings.streams.decide.name, self.settings.decide.subject, self._answers_on(jetstream)).run()

    async def _consume(self, jetstream: JetStream, survey: Survey) -> None:
        config = self.settings.decide
        consumer = self._consumer = Consumer(
            decide_lane(self.settings, self.shelf, self.metrics, jetstream.connection, self._observer),
            jetstream,
            starts_bucket=self.settings.buckets.starts.name,
            answer=self._answers_on(jetstream).answer,
            restore=lambda: survey.restore(self.settings.streams.decide.name, config.durable),
            deadlines=Deadlines(self.settings.drain.soft_deadline_ms / 1000, self.settings.drain.hard_deadline_ms / 1000),
        )
        self._watch(consumer, config.durable)
        await consumer.run()

    def _answers_on(self, jetstream: JetStream) -> Answers:
        """One for the whole life of the process: a restarted child must not forget who asked."""
        if self._answers is None:
            self._answers = decide_answers(self.settings, jetstream.connection, self.metrics)
        return self._answers

    # -- state ---------------------------------------------------------------------------------------------------

    def readiness(self) -> Mapping[str, Check]:
        """The checks behind /readyz."""
        connected = self._connection is not None and self._connection.is_connected
        drift = self._survey.drift if self._survey is not None else ()
        checks = {
            "broker": Check(connected, "connected" if connected else "not connected"),
            "topology": Check(not drift, "; ".join(str(one) for one in drift) or "as declared"),
        }
        if self._consumer is not None:
            health = self._consumer.health
            checks[self.settings.decide.durable] = Check(health.is_ready, health.detail)
        else:
            checks[self.settings.decide.durable] = Check(False, "not started")
        return checks

    async def _announce(self, on_ready: Callable[[Ready], None]) -> None:
        while not (self._http_port and all(check.ok for check in self.readiness().values())):  # noqa: ASYNC110 - many causes, once
            await asyncio.sleep(0.01)
        url = self._connection.connected_url if self._connection is not None else None
        log.info(events.ROUTER_READY)
        on_ready(Ready(f"nats://{url.hostname}:{url.port}" if url else "", f"http://{self.settings.http.host}:{self._http_port}"))

    def _bound(self, port: int) -> None:
        self._http_port = port

    def _watch(self, consumer: Consumer, durable: str) -> None:
        metrics = self.metrics
        metrics.connected.watch(lambda: int(self._connection is not None and self._connection.is_connected))
        metrics.in_flight.watch(lambda: len(consumer.desk.hands) if consumer.desk is not None else 0, durable)
        metrics.lane_paused.watch(lambda: int(consumer.gate.cause is not None), durable)

    async def _lost(self) -> None:
        if not self._is_stopping:
            log.warning(events.BROKER_LOST)

    async def _back(self) -> None:
        self.metrics.reconnects.value += 1
        log.info(events.BROKER_BACK)
