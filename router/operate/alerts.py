"""Publishes alerts for operators on `beamline.alert.v1.{severity}`, each cause at most once per
interval (docs/reference/contracts.md#alerts).

raise_alert ── same cause within the interval ──> dropped; so is a new cause while its component has very many
    ├── connected ──> published, not stored
    └── not connected ──> queued (the newest 100), published after the reconnect
"""

from __future__ import annotations

import uuid
from collections import defaultdict, deque

from msgspec.structs import replace

from router.contracts.alert import Alert, alert_bytes, alert_subject
from router.core.clock import Clock, now_ms, steady
from router.delivery.wire.connection import Connection
from router.process.observability import LogRateLimit, events, logs

log = logs.logger(__name__)

MAX_QUEUED = 100


class Alerts:
    """One object per process. `every_s`: seconds between two alerts of one cause."""

    def __init__(self, node_id: str, every_s: float, clock: Clock = steady) -> None:
        self._node_id = node_id
        # One for each component: causes hold names that workers and tenants choose, and many of one
        # kind silence no other kind.
        self._limits = defaultdict[str, LogRateLimit](
            lambda: LogRateLimit(every_s=every_s, clock=clock)
        )
        self._connection: Connection | None = None
        self._queue: deque[tuple[str, bytes]] = deque(maxlen=MAX_QUEUED)

    def attach(self, connection: Connection) -> None:
        """Publish on this connection from now on; parts that raise alerts exist before it does."""
        self._connection = connection
        self.flush()

    def raise_alert(self, alert: Alert) -> None:
        if not self._limits[alert.component].allow(alert.cause):
            return
        log.info(
            events.ALERT_RAISED,
            severity=alert.severity,
            component=alert.component,
            cause=alert.cause,
        )
        published = replace(
            alert,
            metadata={**alert.metadata, "cause": alert.cause, "router_node_id": self._node_id},
        )
        self._queue.append(
            (alert_subject(alert), alert_bytes(published, str(uuid.uuid4()), now_ms()))
        )
        self.flush()

    def flush(self) -> None:
        """Publish the queued alerts, if connected."""
        if self._connection is None or not self._connection.is_connected:
            return
        while self._queue:
            self._connection.publish_nowait(*self._queue.popleft())
