"""The stream of a context's events (docs/reference/requirements.md#sd-29), declared; and whether
streams and durables are still as declared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from router.core.errors import RouterError
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import (
    DRIFTED,
    IRREVERSIBLE,
    PAUSED,
    Difference,
    StreamSpec,
    Topology,
)
from router.process.observability import ReadinessCheck, events, logs

DAY = 86_400.0
GIB = 1024**3


def events_stream(
    context: str,
    name: str | None = None,
    *,
    max_age: float = 7 * DAY,
    max_bytes: int = 10 * GIB,
    window: float = 3600.0,
    replicas: int = 1,
) -> StreamSpec:
    """`{CONTEXT}_EVENTS` on `{context}.event.>`. Seconds and bytes; the specification's figures,
    three replicas in production.
    """
    return StreamSpec(
        name=name or f"{context.upper()}_EVENTS",
        subjects=(f"{context}.event.>",),
        max_age=max_age,
        max_bytes=max_bytes,
        duplicate_window=window,
        replicas=replicas,
        allow_atomic=True,
    )


# -- Whether the streams and durables of a relay or an inbox are still as its settings say, as
# `operate.topology.monitor` does for the router.
#
#     start      `topology = create | check`: compare, and log what differs
#     run        compare every 30 s: a stream that an operator changed may drop messages
#
# It changes nothing: the consumer waits for a missing stream or durable, or creates it.


log = logs.logger(__name__)

DRIFT_EVERY_S = 30.0


class DriftWatch:
    """A supervised helper. `remedy`: what the operator can do about a difference."""

    def __init__(self, jetstream: JetStream, declared: Topology, remedy: str) -> None:
        self._jetstream = jetstream
        self._declared = declared
        self._remedy = remedy
        self._drift: Sequence[Difference] = ()

    @property
    def check(self) -> ReadinessCheck:
        return ReadinessCheck(not self._drift, "; ".join(map(str, self._drift)) or "as declared")

    async def look(self) -> None:
        """Compare once, and log each new difference. Raises BrokerUnavailable."""
        drift = [
            difference
            for difference in await topology.compare(self._jetstream, self._declared)
            if difference.state in (DRIFTED, PAUSED, IRREVERSIBLE)
        ]
        for difference in drift:
            if difference not in self._drift:
                log.error(events.TOPOLOGY_DRIFT, difference=str(difference), mend=self._remedy)
        self._drift = drift

    async def run(self) -> None:
        while True:
            await asyncio.sleep(DRIFT_EVERY_S)
            # the broker is unavailable: its own readiness check shows that
            with suppress(RouterError):
                await self.look()
