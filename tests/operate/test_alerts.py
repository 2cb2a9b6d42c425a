"""Each cause is told once in a while, also when the broker is away at that moment."""

from msgspec.structs import replace

from router.operate.alerts import MAX_QUEUED
from tests.support.app import RecordedAlerts, an_alert


def test_an_alert_goes_to_its_severitys_subject_with_the_node_that_raised_it() -> None:
    told = RecordedAlerts()
    told.alerts.raise_alert(an_alert())
    (alert,) = told.heard
    assert (alert["subject"], alert["component"]) == ("beamline.alert.v1.warning", "router.test")
    assert alert["metadata"] == {"fact": 1, "cause": "cause", "router_node_id": "node-1"}


def test_a_cause_is_told_once_a_minute() -> None:
    told = RecordedAlerts()
    for cause in ("a", "b", "a"):
        told.alerts.raise_alert(an_alert(cause))
    assert told.causes == ["a", "b"]
    told.clock.now += 60
    told.alerts.raise_alert(an_alert("a"))
    assert told.causes == ["a", "b", "a"]


def test_what_is_raised_while_the_broker_is_away_is_told_when_it_is_back() -> None:
    told = RecordedAlerts(is_connected=False)
    for number in range(MAX_QUEUED + 5):
        told.alerts.raise_alert(an_alert(f"cause-{number}"))
    assert told.heard == []
    told.connection.is_connected = True
    told.alerts.flush()
    assert told.causes == [f"cause-{number}" for number in range(5, MAX_QUEUED + 5)]


def test_a_thousand_causes_of_one_component_silence_no_other() -> None:
    """A worker makes up names of workers that fall silent."""
    told = RecordedAlerts()
    for number in range(1100):
        told.alerts.raise_alert(an_alert(f"worker_silent:acme:{number}"))
    assert len(told.causes) == 1001, "the others share one line"
    told.alerts.raise_alert(
        replace(an_alert("breaker_opened:provider:acme/openai"), component="router.breakers")
    )
    assert told.causes[-1] == "breaker_opened:provider:acme/openai"
