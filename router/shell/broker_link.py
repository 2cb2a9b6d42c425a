"""The console's connection: opened in the background, so that the pages are there while it is not;
the last alerts, and the workers.

A page that needs the broker gets an error at once while there is no connection, and never waits for
one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping

import orjson
from msgspec import Struct

from router.config import Settings
from router.config.connect import connect_by
from router.contracts.alert import ALERT_SUBJECT
from router.contracts.heartbeat import HEARTBEAT_SUBJECTS, Heartbeat, read_heartbeat
from router.core.clock import now_ms, steady, wall
from router.core.errors import BrokerUnavailable, RouterError
from router.core.masking import shorten
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.work.model import Liveness

RETRY_S = 1.0
KEPT_ALERTS = 50
MAX_ALERT_BYTES = 16_384
MAX_ALERT_TEXT = 500  # characters of each of its texts


class HeardAlert(Struct, frozen=True):
    """One alert as it was heard. `at`: seconds since the epoch, of this process."""

    at: float
    severity: str
    component: str
    message: str


class BrokerLink:
    """A child of the console's tree."""

    def __init__(self, settings: Settings) -> None:
        self._config = settings.nats.model_copy(update={"name": f"{settings.nats.name}-console"})
        self._domain = settings.nats.js_domain
        self._connection: Connection | None = None
        self._cause = "no connection yet"
        self.alerts: deque[HeardAlert] = deque(maxlen=KEPT_ALERTS)
        self.hears_since: float | None = None  # seconds since the epoch; None: alerts are not heard
        self.workers = Liveness()
        self.workers_cause = "Not heard yet."  # why heartbeats are not; empty: they are

    async def run(self) -> None:
        """Connect, however long that takes, and stay connected until cancelled."""
        while True:
            try:
                connection = await connect_by(self._config)
                break
            except RouterError as exc:
                self._cause = str(exc)
            await asyncio.sleep(RETRY_S)
        try:
            self._connection = connection
            await self._listen(connection)
            await asyncio.Event().wait()
        finally:
            self._connection = None
            await connection.close()

    def jetstream(self) -> JetStream:
        """Raises BrokerUnavailable while there is no connection."""
        return JetStream(self.connection(), self._domain)

    def connection(self) -> Connection:
        """Raises BrokerUnavailable while there is none."""
        if self._connection is None:
            raise BrokerUnavailable(self._cause)
        if not self._connection.is_connected:
            raise BrokerUnavailable(
                "the connection to the broker is lost; it is being opened again"
            )
        return self._connection

    async def _listen(self, connection: Connection) -> None:
        subject = ALERT_SUBJECT.replace("{severity}", "*")
        await connection.subscribe_direct(subject, self._on_alert)
        try:
            await connection.require_permission(subject)
            self.hears_since = wall()
        except RouterError as exc:  # this role may not: the page says so
            self._cause = str(exc)
        try:
            for heartbeats in HEARTBEAT_SUBJECTS:
                await connection.subscribe_direct(heartbeats, self._on_heartbeat)
            await connection.require_permission(*HEARTBEAT_SUBJECTS)
            self.workers_cause = ""
        except RouterError as exc:
            self.workers_cause = f"Not heard: {exc}"

    def _on_heartbeat(
        self, _subject: str, _reply: str, data: bytes, headers: Mapping[str, str] | None
    ) -> None:
        beat = (
            read_heartbeat(data, now_ms(), headers or {}) if len(data) <= MAX_ALERT_BYTES else None
        )
        if isinstance(beat, Heartbeat):
            self.workers.on_heartbeat(beat, steady())

    def _on_alert(
        self, _subject: str, _reply: str, data: bytes, _headers: Mapping[str, str] | None
    ) -> None:
        """Any client may publish there, so nothing is believed of what is read."""
        if len(data) > MAX_ALERT_BYTES:
            return
        try:
            alert = orjson.loads(data)
        except orjson.JSONDecodeError:
            return
        if isinstance(alert, dict):
            texts = (
                shorten(str(alert.get(name, "")), MAX_ALERT_TEXT)
                for name in ("severity", "component", "message")
            )
            self.alerts.appendleft(HeardAlert(wall(), *texts))
