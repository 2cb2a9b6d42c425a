"""A connection that remembers alerts, and a clock that a test moves."""

import json
from typing import Any

from router.config import Settings
from router.contracts.alert import WARNING, Alert
from router.operate.alerts import Alerts
from router.process.observability import Metrics
from router.serve.consumer_metrics import ConsumerMetrics
from tests.support.delivery import FakeConnection


class ManualClock:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class RecordedAlerts:
    """Alerts over a fake connection, and what was published of them."""

    def __init__(self, *, is_connected: bool = True) -> None:
        self.clock = ManualClock()
        self.connection = FakeConnection()
        self.connection.is_connected = is_connected
        self.alerts = Alerts("node-1", 60.0, self.clock)
        self.alerts.attach(self.connection)  # type: ignore[arg-type]

    @property
    def heard(self) -> list[dict[str, Any]]:
        return [
            {**json.loads(post.data), "subject": post.subject} for post in self.connection.posts
        ]

    @property
    def causes(self) -> list[str]:
        return [alert["metadata"]["cause"] for alert in self.heard]


def an_alert(cause: str = "cause", severity: str = WARNING) -> Alert:
    return Alert(
        severity=severity,
        component="router.test",
        cause=cause,
        message="something",
        metadata={"fact": 1},
    )


def a_consumer_metrics(told: RecordedAlerts, **settings: Any) -> tuple[ConsumerMetrics, Metrics]:
    metrics = Metrics()
    return ConsumerMetrics(metrics, told.alerts, "router-results", Settings(**settings)), metrics
