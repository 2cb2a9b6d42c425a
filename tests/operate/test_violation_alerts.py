"""Ten messages that break the contract on one subject within a minute are one alert of all
instances together.
"""

from typing import Any

from router.operate.violations.events import ViolationEvent
from router.operate.violations.recorder import MESSAGES_LIMIT, WINDOW_S, ViolationAlerts
from tests.support.app import RecordedAlerts


def an_event(**fields: Any) -> ViolationEvent:
    known = {
        "subscription": "decide",
        "subject": "work",
        "header": "trace_id",
        "rule": "empty",
        "expected": "not empty",
    }
    return ViolationEvent(
        **{**known, "timestamp": 1, "router_node_id": "n", "tenant_id": "beta", **fields}
    )


class Instances:
    """Instances that hear the same events."""

    def __init__(self, count: int = 3) -> None:
        self.told = [RecordedAlerts() for _ in range(count)]
        self.instances = [ViolationAlerts(told.alerts, "", 60.0, told.clock) for told in self.told]

    def publish(self, by: int, after_s: float = 0.0, **fields: Any) -> None:
        for place, (told, instance) in enumerate(zip(self.told, self.instances, strict=True)):
            told.clock.now += after_s
            instance.on_event(an_event(**fields), is_own=place == by)

    @property
    def heard(self) -> list[dict[str, Any]]:
        return [alert for told in self.told for alert in told.heard]


def test_ten_messages_on_three_instances_are_one_alert_that_names_the_worst_tenant_and_the_command() -> (
    None
):
    instances = Instances()
    for number in range(MESSAGES_LIMIT):
        instances.publish(by=number % 3, tenant_id="acme" if number < 2 else "beta")
    (alert,) = instances.heard
    assert alert["metadata"]["cause"] == "contract_violations:work"
    assert {
        name: alert["metadata"][name] for name in ("tenant_id", "header", "rule", "messages")
    } == {**{"tenant_id": "beta", "header": "trace_id", "rule": "empty", "messages": 10}}
    assert (
        alert["metadata"]["command"]
        == "router contract violations --since 1h --subject work --by tenant,rule"
    )


def test_while_it_goes_on_there_is_one_alert_a_minute_of_all_instances_together() -> None:
    instances = Instances()
    for number in range(360):
        instances.publish(by=number % 3, after_s=0.5)
    assert len(instances.heard) == 3


def test_a_message_that_breaks_several_rules_counts_once() -> None:
    instances = Instances(1)
    for _ in range(MESSAGES_LIMIT - 1):
        instances.publish(by=0)
        instances.publish(by=0, rule="missing", messages=0)
    assert instances.heard == []
    instances.publish(by=0)
    assert len(instances.heard) == 1


def test_an_event_counts_the_messages_that_it_stands_for() -> None:
    instances = Instances(1)
    instances.publish(by=0, count=20, messages=10)
    assert len(instances.heard) == 1


def test_slow_ones_and_those_of_different_subjects_are_none() -> None:
    instances = Instances(1)
    for number in range(3 * MESSAGES_LIMIT):
        instances.publish(by=0, after_s=WINDOW_S / (MESSAGES_LIMIT - 2), subject="slow")
        if number < MESSAGES_LIMIT - 1:
            instances.publish(by=0, subject="few")
    assert instances.heard == []
