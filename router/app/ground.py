"""What every lane of one process stands on. It outlives the restart of any child: memories must not forget with one."""

from __future__ import annotations

from router.app.alerts import Alerts
from router.app.known import KnownBook
from router.app.violations import Violations
from router.assignments import KnownMemory
from router.buckets.lookups import Lookups
from router.buckets.records import Records
from router.config import Settings
from router.delivery.api import JetStream
from router.delivery.connection import Connection
from router.observability import Metrics
from router.policy import Averages, Policies


class Ground:
    """Made once, when the connection is there."""

    def __init__(self, settings: Settings, metrics: Metrics, alerts: Alerts, policies: Policies, jetstream: JetStream) -> None:
        self.settings = settings
        self.metrics = metrics
        self.alerts = alerts
        self.policies = policies
        self.jetstream = jetstream
        self.violations = Violations(metrics, alerts)
        self.averages = Averages()
        bucket = settings.buckets.assignments_known.name
        self.known = KnownMemory(Lookups(jetstream, bucket).find)
        self.book = KnownBook(Records(jetstream, bucket), self.known)

    @property
    def connection(self) -> Connection:
        return self.jetstream.connection
