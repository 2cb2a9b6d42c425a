"""Whether the streams and durables of a relay or an inbox are still as its settings say, as `topology_monitor` does for the router.

    start      `topology = create | check`: compared; what differs is told
    run        every half minute again: a stream that an operator changed may drop what was stored

What is missing is its subscription's business, which waits for it or makes it again. Nothing is changed from here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from router.delivery import topology
from router.delivery.api import JetStream
from router.delivery.topology import DRIFTED, Difference, Topology
from router.errors import RouterError
from router.observability import ReadinessCheck, events, logs

log = logs.logger(__name__)

EVERY_S = 30.0


class DriftWatch:
    """Of one process; `remedy`: what its operator may do. A supervised helper."""

    def __init__(self, jetstream: JetStream, declared: Topology, remedy: str) -> None:
        self._jetstream = jetstream
        self._declared = declared
        self._remedy = remedy
        self._drift: Sequence[Difference] = ()

    @property
    def check(self) -> ReadinessCheck:
        return ReadinessCheck(not self._drift, "; ".join(map(str, self._drift)) or "as declared")

    async def look(self) -> None:
        """Tell what differs, each difference once. Raises BrokerUnavailable."""
        drift = [one for one in await topology.compare(self._jetstream, self._declared) if one.state == DRIFTED]
        for difference in drift:
            if difference not in self._drift:
                log.error(events.TOPOLOGY_DRIFT, difference=str(difference), mend=self._remedy)
        self._drift = drift

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            with suppress(RouterError):  # the broker is away: its own check says so
                await self.look()
