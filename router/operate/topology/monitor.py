"""Compares streams and consumers on the server with the declared topology, and measures how far
behind the consumers are.

    ensure          at the start: create, compare or trust, as the setting `topology` says
    create_again    a consumer was deleted: create it, unless an operator does
    compare_again   a consumer found its durable, which may have been missing
    run             a child of the tree: every 5 s values for the gauges, and whether there is a
                    quorum; every 30 s a comparison, sooner
                    where something is missing, and that is made where `topology` is create
    check           for readiness

Of several instances one asks the server, and all hear the answer (`delivery.wire.shared_info`).
`UnreadDrops`, which stands first, counts what a stream dropped before its durable received it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from router.contracts.alert import CRITICAL, Alert
from router.core.clock import spread
from router.core.errors import BrokerRefused, Misconfigured, NoLeader, QuorumLost, RouterError
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.server_state import require_quorum
from router.delivery.wire.shared_info import RecentInfo, SharedInfo
from router.delivery.wire.topology import ConsumerSpec, Difference, Topology
from router.operate.alerts import Alerts
from router.process.observability import LogRateLimit, Metrics, ReadinessCheck, events, logs

# -- The monitor.

log = logs.logger(__name__)

TOPOLOGY_EVERY_S = 5.0
WITHOUT_QUORUM_EVERY_S = 1.0
COMPARE_EVERY = 6  # measurements between two comparisons of the topology
# of an answer that counts as this round's; less than the shortest time between two rounds of one
# instance
MAX_AGE_S = 3.5
MAX_AGE_IN_TROUBLE_S = 0.75
MENDS = {
    topology.PAUSED: "nats consumer resume",
    topology.IRREVERSIBLE: "nats stream rm, then router topology apply",
}


class MeasuredConsumers(Protocol):
    """What this process knows of its durables."""

    def find_label(self, spec: ConsumerSpec) -> str:
        """Its name in metrics."""

    def find_newest_ns(self, spec: ConsumerSpec) -> int:
        """Stream time (ns) of the message that it settled last; 0: none yet."""


class TopologyMonitor:
    """Measures the durables and remembers what drifted."""

    def __init__(
        self,
        jetstream: JetStream,
        declared: Topology,
        metrics: Metrics,
        alerts: Alerts,
        consumers: MeasuredConsumers,
        *,
        mode: str,
    ) -> None:
        self.jetstream = jetstream
        self.infos = SharedInfo(jetstream)
        self.drift: Sequence[Difference] = ()
        self._is_missing = False  # something declared, in the last round
        self.without_quorum: str | None = None  # why something declared can store nothing now
        self._declared = declared
        self._metrics = metrics
        self._alerts = alerts
        self._unread = UnreadDrops()
        self._consumers = consumers
        self._mode = mode  # create | check | off
        self._deleted_lines = LogRateLimit(every_s=10.0)
        for consumer in declared.consumers:
            # from 0 on, so that its first event is an increase
            metrics.unread_dropped[consumers.find_label(consumer),] += 0

    async def ensure(self) -> None:
        """Create or compare what is declared. Raises Misconfigured when the server refuses it."""
        if self._mode == "off":
            return
        make_or_compare = topology.create if self._mode == "create" else topology.compare
        try:
            self._report_drift(await make_or_compare(self.jetstream, self._declared))
        except BrokerRefused as exc:
            raise Misconfigured(
                "topology", f"{exc}; `router topology plan` shows what is wanted"
            ) from exc

    async def compare_again(self, _: Json) -> None:
        """Compare a durable that an operator created at once, so that readiness need not wait for
        the next comparison.
        """
        if self.drift:
            await self.ensure()

    async def create_again(self, stream: str, durable: str) -> None:
        if self._deleted_lines.allow(durable):
            log.error(events.CONSUMER_DELETED, stream=stream, consumer=durable, topology=self._mode)
        await self.ensure()

    @property
    def check(self) -> ReadinessCheck:
        """Its line in /readyz."""
        causes = [
            *([self.without_quorum] if self.without_quorum is not None else []),
            *map(str, self.drift),
        ]
        return ReadinessCheck(not causes, "; ".join(causes) or "as declared")

    def _report_drift(self, drift: Sequence[Difference]) -> None:
        """Remember what differs, and log each difference once."""
        drift = [difference for difference in drift if difference.state not in topology.HARMLESS]
        for difference in drift:
            if difference not in self.drift:
                log.error(
                    events.TOPOLOGY_DRIFT,
                    difference=str(difference),
                    mend=MENDS.get(difference.state, "router topology apply"),
                )
        self.drift = tuple(drift)

    async def run(self) -> None:
        count = 0
        async with self.infos.listen():
            while True:
                await self._look(compares=count % COMPARE_EVERY == COMPARE_EVERY - 1)
                count += 1
                await asyncio.sleep(
                    spread(
                        TOPOLOGY_EVERY_S if self.without_quorum is None else WITHOUT_QUORUM_EVERY_S
                    )
                )

    async def _look(self, *, compares: bool) -> None:
        with suppress(RouterError):  # the broker is unavailable: its own readiness check shows that
            try:
                await self.measure()
            except NoLeader as exc:
                await self._on_no_quorum(exc)
                return
            self._on_quorum()
            if self._mode != "off" and (self.drift or compares or self._is_missing):
                await self._compare()

    async def _on_no_quorum(self, exc: NoLeader) -> None:
        if self.without_quorum is None:
            log.error(events.BROKER_WITHOUT_LEADER, cause=str(exc))
        self.without_quorum = str(exc)
        if isinstance(exc, QuorumLost):
            # the others may have a quorum without this one
            await self.jetstream.connection.leave_server()

    def _on_quorum(self) -> None:
        if self.without_quorum is not None:
            log.info(events.BROKER_WITH_LEADER)
        self.without_quorum = None

    @property
    def _max_age(self) -> float:
        return MAX_AGE_S if self.without_quorum is None else MAX_AGE_IN_TROUBLE_S

    async def measure(self) -> None:
        """One round of values for the gauges. Raises BrokerUnavailable, BrokerRefused.

        Without a quorum the first call is the last. Those of all streams are made together: they
        wake the server once, and the other instances hear all answers before they begin rounds of
        their own, also where the machine is busy.
        """
        self._is_missing = False
        for consumer in self._declared.consumers:
            await self._measure_consumer(consumer)
        done = await asyncio.gather(
            *(self._measure_stream(stream.name) for stream in self._declared.streams),
            return_exceptions=True,
        )
        for failure in filter(None, done):
            raise failure

    async def _compare(self) -> None:
        infos = RecentInfo(self.infos, MAX_AGE_IN_TROUBLE_S if self.drift else MAX_AGE_S)
        differences = await topology.compare(infos, self._declared)
        self._report_drift(differences)
        if self._mode == "create" and any(
            difference.state == topology.MISSING for difference in differences
        ):
            self._report_drift(await topology.create(self.jetstream, self._declared))

    async def _measure_stream(self, stream: str) -> None:
        """Measure how full a stream is: a full one with `discard = new` refuses messages, and the
        consumer that publishes them pauses.
        """
        info = await self.infos.stream(stream, self._max_age)
        if info is None:
            self._is_missing = True
            return
        require_quorum(f"stream {stream}", info)
        self._metrics.stream_bytes.set(info["state"]["bytes"], stream)
        followers = (info.get("cluster") or {}).get("replicas") or ()
        missing = sum(
            1 for follower in followers if follower.get("offline") or not follower.get("current")
        )
        self._metrics.copies_missing.set(missing, stream)
        if (limit := info["config"].get("max_bytes", -1)) > 0:
            self._metrics.stream_limit.set(limit, stream, info["config"].get("discard", "old"))

    async def _measure_consumer(self, spec: ConsumerSpec) -> None:
        both = await self.infos.read(
            f"LAG.{spec.stream}.{spec.durable}", self._max_age, partial(self._ask_both, spec)
        )
        if both is None:
            return
        info, label = both["consumer"], self._consumers.find_label(spec)
        require_quorum(f"consumer {spec.durable}", info)
        if dropped := self._unread.look(label, both["stream"], info):
            self._report_dropped(spec.stream, label, dropped)
        pending = info["num_pending"]
        newest = self._consumers.find_newest_ns(spec)
        self._metrics.pending.set(pending, label)
        self._metrics.redelivered.set(info["num_redelivered"], label)
        self._metrics.lag_seconds.set(
            max(0.0, time.time() - newest / 1e9) if pending and newest else 0.0, label
        )

    async def _ask_both(self, spec: ConsumerSpec) -> Json | None:
        """The infos of a consumer and of its stream, in the order that `UnreadDrops` needs."""
        stream_info = await self.infos.stream(spec.stream)
        info = await self.jetstream.consumer(spec.stream, spec.durable)
        return (
            {"stream": stream_info, "consumer": info}
            if info is not None and stream_info is not None
            else None
        )

    def _report_dropped(self, stream: str, label: str, count: int) -> None:
        self._metrics.unread_dropped[label,] += count
        log.error(events.UNREAD_DROPPED, stream=stream, consumer=label, count=count)
        facts = {"stream": stream, "consumer": label, "count": count}
        text = "A stream was full or its messages too old: some were dropped before they were read"
        self._alerts.raise_alert(
            Alert(
                severity=CRITICAL,
                component="router.topology",
                cause=f"unread_dropped:{label}",
                message=text,
                metadata=facts,
            )
        )


# -- Messages that a stream dropped before its durable received them. A stream that discards old
# messages reports none of them, and its durable goes on at the next message that exists. Only a
# gap shows: the position of the durable rises by more than its deliveries.
#
# place     the stream position of the durable, or the sequence before the first message of the
# stream, if that is higher
#     given     the deliveries of the durable
#     place - given    rises by one with each message dropped unread, and falls with each redelivery
#
# So the count may be too low during redeliveries, and is never too high. All instances count
# the same. A new leader of the durable may not know of the last deliveries of the one before:
# of its first figures only what lies beyond its position counts. It may also hear their acks
# later, which raise its position without a delivery: no more counts than the stream has lost at
# its begin since the last look.


class SeenDurable(NamedTuple):
    """`counted`: the highest stream position up to which drops were counted."""

    created: str
    leader: str
    ahead: int
    counted: int


class UnreadDrops:
    """The state of each durable that one process measures."""

    def __init__(self) -> None:
        self._seen: dict[str, SeenDurable] = {}  # by durable

    def look(self, durable: str, stream: Json, consumer: Json) -> int:
        """How many were dropped since the last call; the first call counts those that the durable
        has not passed yet.

        `stream` must be fetched before `consumer`, or messages read in between count as dropped.
        """
        passed, given = (
            int(consumer["delivered"]["stream_seq"]),
            int(consumer["delivered"]["consumer_seq"]),
        )
        gone = int(stream["state"]["first_seq"]) - 1
        place = max(passed, gone)
        leader = str((consumer.get("cluster") or {}).get("leader", ""))
        before = self._seen.get(durable)
        is_same = before is not None and before.created == consumer["created"]
        counted = before.counted if before is not None and is_same else 0
        self._seen[durable] = SeenDurable(
            consumer["created"], leader, place - given, max(place, counted)
        )
        if before is None or not is_same or before.leader != leader:
            return max(0, place - max(passed, counted))
        return max(0, min(place - given - before.ahead, gone - before.counted))
