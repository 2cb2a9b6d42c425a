"""Compares streams and consumers on the server with the declared topology, and measures how far behind the consumers are.

ensure          at the start: create, compare or trust, as the setting `topology` says
create_again    a consumer was deleted: create it, unless an operator does
compare_again   a consumer found its durable, which may have been missing
run             a child of the tree: every 5 s values for the gauges, every 30 s a comparison for readiness

Of several instances one asks the server, and all hear the answer (`delivery.shared_info`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from router.contracts.alert import CRITICAL, Alert
from router.core.backoff import spread
from router.core.errors import BrokerRefused, Misconfigured, RouterError
from router.delivery import topology
from router.delivery.api import JetStream, Json
from router.delivery.shared_info import RecentInfo, SharedInfo
from router.delivery.topology import Difference, Topology
from router.operations.observability import LogRateLimit, Metrics, events, logs
from router.services.alerts import Alerts
from router.services.unread_drops import UnreadDrops

log = logs.logger(__name__)

TOPOLOGY_EVERY_S = 5.0
COMPARE_EVERY = 6  # measurements between two comparisons of the topology
MAX_AGE_S = 3.5  # of an answer that counts as this round's; less than the shortest time between two rounds of one instance
MAX_AGE_IN_DRIFT_S = 1.0


class TopologyMonitor:
    """Measures the durables and remembers what drifted. `newest` returns the stream time (ns) of the message a durable settled last."""

    def __init__(
        self, jetstream: JetStream, declared: Topology, metrics: Metrics, alerts: Alerts, newest: Callable[[str], int], *, mode: str
    ) -> None:
        self.jetstream = jetstream
        self.infos = SharedInfo(jetstream)
        self.drift: Sequence[Difference] = ()
        self._declared = declared
        self._metrics = metrics
        self._alerts = alerts
        self._unread = UnreadDrops()
        self._newest = newest
        self._mode = mode  # create | check | off
        self._deleted_lines = LogRateLimit(every_s=10.0)
        for consumer in declared.consumers:
            metrics.unread_dropped[consumer.durable,] += 0  # a series that begins with its first event has no increase to show

    async def ensure(self) -> None:
        """Create or compare what is declared. Raises Misconfigured when the server refuses it."""
        if self._mode == "off":
            return
        look = topology.create if self._mode == "create" else topology.compare
        try:
            self._report_drift(await look(self.jetstream, self._declared))
        except BrokerRefused as exc:
            raise Misconfigured("topology", f"{exc}; `router topology plan` shows what is wanted") from exc

    async def compare_again(self, _: Json) -> None:
        """Compare a durable that an operator created at once, so that readiness need not wait for the next comparison."""
        if self.drift:
            await self.ensure()

    async def create_again(self, stream: str, durable: str) -> None:
        if self._deleted_lines.allow(durable):
            log.error(events.CONSUMER_DELETED, stream=stream, consumer=durable, topology=self._mode)
        await self.ensure()

    def _report_drift(self, drift: Sequence[Difference]) -> None:
        """Remember what differs, and log each difference once."""
        for difference in drift:
            if difference not in self.drift:
                log.error(events.TOPOLOGY_DRIFT, difference=str(difference), mend="router topology apply")
        self.drift = tuple(drift)

    async def run(self) -> None:
        count = 0
        async with self.infos.listen():
            while True:
                with suppress(RouterError):  # the broker is unavailable: its own readiness check shows that
                    await self.measure()
                    if self._mode != "off" and (self.drift or count % COMPARE_EVERY == COMPARE_EVERY - 1):
                        await self._compare()
                count += 1
                await asyncio.sleep(spread(TOPOLOGY_EVERY_S))

    async def measure(self) -> None:
        """One round of values for the gauges. Raises BrokerUnavailable, BrokerRefused."""
        for consumer in self._declared.consumers:
            await self._measure_consumer(consumer.stream, consumer.durable)
        for stream in self._declared.streams:
            await self._measure_stream(stream.name)

    async def _compare(self) -> None:
        infos = RecentInfo(self.infos, MAX_AGE_IN_DRIFT_S if self.drift else MAX_AGE_S)
        self._report_drift(await topology.compare(infos, self._declared))

    async def _measure_stream(self, stream: str) -> None:
        """Measure how full a stream is: a full one with `discard = new` refuses messages, and the consumer that publishes them pauses."""
        info = await self.infos.stream(stream, MAX_AGE_S)
        if info is None:
            return
        self._metrics.stream_bytes.set(info["state"]["bytes"], stream)
        if (limit := info["config"].get("max_bytes", -1)) > 0:
            self._metrics.stream_limit.set(limit, stream, info["config"].get("discard", "old"))

    async def _measure_consumer(self, stream: str, durable: str) -> None:
        both = await self.infos.read(f"LAG.{stream}.{durable}", MAX_AGE_S, partial(self._ask_both, stream, durable))
        if both is None:
            return
        info = both["consumer"]
        if dropped := self._unread.look(durable, both["stream"], info):
            self._report_dropped(stream, durable, dropped)
        pending = info["num_pending"]
        newest = self._newest(durable)
        self._metrics.pending.set(pending, durable)
        self._metrics.redelivered.set(info["num_redelivered"], durable)
        self._metrics.lag_seconds.set(max(0.0, time.time() - newest / 1e9) if pending and newest else 0.0, durable)

    async def _ask_both(self, stream: str, durable: str) -> Json | None:
        """The infos of a consumer and of its stream, in the order that `UnreadDrops` needs."""
        stream_info = await self.infos.stream(stream)
        info = await self.jetstream.consumer(stream, durable)
        return {"stream": stream_info, "consumer": info} if info is not None and stream_info is not None else None

    def _report_dropped(self, stream: str, durable: str, count: int) -> None:
        self._metrics.unread_dropped[durable,] += count
        log.error(events.UNREAD_DROPPED, stream=stream, consumer=durable, count=count)
        facts = {"stream": stream, "consumer": durable, "count": count}
        text = "A stream was full or its messages too old: some were dropped before they were read"
        self._alerts.raise_alert(
            Alert(severity=CRITICAL, component="router.topology", cause=f"unread_dropped:{durable}", message=text, metadata=facts)
        )
