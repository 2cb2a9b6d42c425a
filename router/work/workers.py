"""Listens to workers: which are alive, which fell silent, and which assignments they gave up.

heartbeats   both subjects, on a core subscription: nothing is stored, every instance receives all
dead letters      `caf.exec.dlq.v1`, `caf.deadletter.v1`: stored by their stream; one instance of
                  the queue group raises an alert
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from router.contracts.alert import WARNING, Alert
from router.contracts.dead_letter import WORKER_DEAD_LETTER_SUBJECTS
from router.contracts.extract import extract_ids
from router.contracts.heartbeat import (
    HEARTBEAT_SUBJECTS,
    Heartbeat,
    read_claimed_id,
    read_heartbeat,
)
from router.contracts.result import RESULT
from router.core.clock import Clock, now_ms, steady
from router.core.message import NO_HEADERS, Message
from router.core.outcome import Fault
from router.delivery.wire.connection import Connection
from router.delivery.wire.frames import Headers
from router.operate.alerts import Alerts
from router.process.observability import LogRateLimit, Metrics, events, logs
from router.work.model import Liveness, WorkerChange, WorkerCondition

log = logs.logger(__name__)

LIVENESS_EVERY_S = 0.5
# after a reconnect no worker counts as silent: the router missed their heartbeats
GRACE_AFTER_RECONNECT_S = 15.0
QUEUE = "router-workers-group"
# workers named in one check, and log lines a second: made-up names must not flood operators
MAX_NAMED_WORKERS = 20

TOO_MANY_WORKERS = Fault(
    "overloaded", "More workers are heard than one group of tenants may have remembered"
)


class Workers:
    """The children of the tree that listen to workers. `serves`: whether a tenant has its own
    policy.

    Tenants without one share their slots, so that made-up tenant names get no share.
    """

    def __init__(
        self,
        metrics: Metrics,
        alerts: Alerts,
        clock: Clock = steady,
        *,
        serves: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self.liveness = Liveness(
            group_of=lambda tenant_id: (
                tenant_id if tenant_id is not None and serves(tenant_id) else None
            )
        )
        self._metrics = metrics
        self._alerts = alerts
        self._clock = clock
        self._lines = LogRateLimit(every_s=1.0, limit=MAX_NAMED_WORKERS, clock=clock)
        self._dead_letter_lines = LogRateLimit(every_s=1.0, clock=clock)
        self._refused_lines = LogRateLimit(every_s=1.0, clock=clock)
        self._grace_until = 0.0
        metrics.workers_alive.set_function(lambda: self.liveness.count_alive(clock()))
        metrics.workers_silent.set_function(
            lambda: self.liveness.count_silent(clock()) if clock() >= self._grace_until else 0
        )

    async def receive_heartbeats(self, connection: Connection) -> None:
        """A child: receive heartbeats, and check for silent workers every half second."""
        subscriptions = [
            await connection.subscribe_direct(subject, self.on_heartbeat)
            for subject in HEARTBEAT_SUBJECTS
        ]
        reconnects = connection.reconnect_count
        try:
            while True:
                await asyncio.sleep(LIVENESS_EVERY_S)
                if reconnects != connection.reconnect_count or not connection.is_connected:
                    reconnects, self._grace_until = (
                        connection.reconnect_count,
                        self._clock() + GRACE_AFTER_RECONNECT_S,
                    )
                self.report_silent()
        finally:
            for sid in subscriptions:
                await connection.unsubscribe(sid)

    async def receive_dead_letters(self, connection: Connection) -> None:
        """A child: raise an alert for each dead letter of a worker."""
        subscriptions = [
            await connection.subscribe_direct(subject, self.on_dead_letter, QUEUE)
            for subject in WORKER_DEAD_LETTER_SUBJECTS
        ]
        try:
            await asyncio.Event().wait()
        finally:
            for sid in subscriptions:
                await connection.unsubscribe(sid)

    def on_heartbeat(self, subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        beat = read_heartbeat(data, now_ms(), headers or NO_HEADERS)
        if not isinstance(beat, Heartbeat):
            self._refuse(subject, beat, data)
            return
        refused = self.liveness.refused
        change = self.liveness.on_heartbeat(beat, self._clock())
        if self.liveness.refused > refused:
            self._refuse(subject, TOO_MANY_WORKERS, data)
        if change is not None:
            self._log_change(change)

    def report_silent(self) -> None:
        """Report the workers that fell silent since the last check."""
        now = self._clock()
        if now < self._grace_until:
            return
        fallen = sorted(
            self.liveness.find_silent(now),
            key=lambda change: not self.liveness.is_proven(change.worker),
        )
        for change in fallen[:MAX_NAMED_WORKERS]:
            self._log_change(change)
            self._alerts.raise_alert(_build_silence_alert(change, now))
        if len(fallen) > MAX_NAMED_WORKERS:
            self._alerts.raise_alert(_build_many_silent_alert(len(fallen)))

    def on_dead_letter(
        self, subject: str, reply: str, data: bytes, headers: Headers | None
    ) -> None:
        seen = extract_ids(
            Message(subject, data, headers or NO_HEADERS, "", "", 0, time.time_ns(), 1, ""), RESULT
        )
        if self._dead_letter_lines.allow(events.WORKER_DEAD_LETTER):
            log.warning(events.WORKER_DEAD_LETTER, subject=subject, **seen)
        self._alerts.raise_alert(
            Alert(
                severity=WARNING,
                component="router.workers",
                cause="worker_dead_letter",
                message=(
                    "A worker gave an assignment up, or could not read one; `router dlq list` "
                    "shows it"
                ),
                metadata={"subject": subject, **seen},
            )
        )

    def _refuse(self, subject: str, fault: Fault, data: bytes) -> None:
        """Count a refused heartbeat, and log one a second for each field, so that the operator
        finds the worker.
        """
        self._metrics.heartbeats_refused.value += 1
        if self._refused_lines.allow((subject, fault.field)):
            claimed = read_claimed_id(data)
            log.warning(
                events.HEARTBEAT_REFUSED,
                subject=subject,
                worker=claimed,
                field=fault.field,
                reason=fault.message,
            )

    def _log_change(self, change: WorkerChange) -> None:
        beat = change.worker.beat
        if self._lines.allow(change.worker.key):
            was = change.was.value if change.was is not None else None
            log.info(
                events.WORKER_CHANGED,
                worker=beat.worker_id,
                tenant=beat.tenant_id,
                was=was,
                condition=change.condition.value,
            )


def _build_many_silent_alert(count: int) -> Alert:
    message = "Many workers fell silent at once; not all are named"
    return Alert(
        severity=WARNING,
        component="router.workers",
        cause="workers_silent",
        message=message,
        metadata={"count": count},
    )


def _build_silence_alert(change: WorkerChange, now: float) -> Alert:
    beat = change.worker.beat
    facts = {
        "worker_id": beat.worker_id,
        "tenant_id": beat.tenant_id,
        "silent_for_ms": round((now - change.worker.heard_at) * 1000),
    }
    return Alert(
        severity=WARNING,
        component="router.workers",
        cause=f"worker_silent:{beat.tenant_id or ''}:{beat.worker_id}",
        message="A worker fell silent"
        if change.was is not WorkerCondition.BUSY
        else "A busy worker fell silent",
        metadata={name: value for name, value in facts.items() if value is not None},
    )
