"""Alerts in the specified shape (docs/reference/contracts.md#alerts)."""

import orjson

from router.contracts.alert import WARNING, Alert, alert_bytes, alert_subject


def test_an_alert_has_the_fields_of_the_page() -> None:
    alert = Alert(
        severity=WARNING,
        component="router.workers",
        cause="worker_silent",
        message="silent",
        metadata={"worker_id": "w-1"},
    )
    assert alert_subject(alert) == "beamline.alert.v1.warning"
    assert orjson.loads(alert_bytes(alert, "a-1", 1_700_000_000_123)) == {
        "alert_id": "a-1",
        "severity": "warning",
        "component": "router.workers",
        "message": "silent",
        "timestamp": "2023-11-14T22:13:20.123Z",
        "metadata": {"worker_id": "w-1"},
    }
