"""What operators are told: one alert on `beamline.alert.v1.{severity}`, published once and not
stored (docs/reference/contracts.md#alerts).

The code that raises an alert names its `cause`; the publisher decides how often one cause is
repeated.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from msgspec import Struct

from router.contracts.decision import NOTHING
from router.core.clock import format_moment

CRITICAL = "critical"
WARNING = "warning"
INFO = "info"
ALERT_SUBJECT = "beamline.alert.v1.{severity}"


class Alert(Struct, frozen=True, kw_only=True):
    """`cause` is a stable word by which repetitions are held back; it is not on the wire unless
    `metadata` holds it too.
    """

    severity: str  # critical | warning | info
    component: str
    cause: str
    message: str
    metadata: Mapping[str, object] = NOTHING  # ids and figures; never a payload or a secret


def alert_subject(alert: Alert) -> str:
    return ALERT_SUBJECT.replace("{severity}", alert.severity)


def alert_bytes(alert: Alert, alert_id: str, at_ms: int) -> bytes:
    """The alert as it is published; `alert_id` is a UUID, `at_ms` when it was raised, milliseconds
    since the epoch.
    """
    return orjson.dumps(
        {
            "alert_id": alert_id,
            "severity": alert.severity,
            "component": alert.component,
            "message": alert.message,
            "timestamp": format_moment(at_ms),
            "metadata": dict(alert.metadata),
        }
    )
