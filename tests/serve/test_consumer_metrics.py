"""The observer of a consumer turns its callbacks into the metrics of the reference, and alerts."""

from msgspec.structs import replace

from router.core.outcome import Dead, Done, Fault, PublishAck, Retry
from router.operate.dead_letters.original import REPLAY_RUN
from router.serve.consumer_metrics import ConsumerMetrics
from tests.support.app import RecordedAlerts, a_consumer_metrics
from tests.support.delivery import a_delivery

FAULT = Fault("busy", "not now")


def publish_ack(stream: str, *, again: bool = False) -> PublishAck:
    return PublishAck("id", stream, 1, again)


def test_what_is_stored_is_counted_by_its_stream() -> None:
    observer, metrics = a_consumer_metrics(RecordedAlerts())
    observer.on_stored(a_delivery(), [publish_ack("ROUTER_USAGE")])
    observer.on_stored(a_delivery(), [publish_ack("ROUTER_ASSIGNMENTS")])
    observer.on_stored(a_delivery(), [publish_ack("ROUTER_DLQ")])
    assert (
        metrics.usage_published.value,
        metrics.assignments_published.value,
        metrics.results_duplicate.value,
    ) == (1, 1, 0)


def test_a_usage_event_that_stood_there_is_a_duplicate_unless_its_own_message_stored_it() -> None:
    observer, metrics = a_consumer_metrics(RecordedAlerts())
    observer.on_stored(a_delivery(deliveries=1), [publish_ack("ROUTER_USAGE", again=True)])
    observer.on_stored(a_delivery(deliveries=2), [publish_ack("ROUTER_USAGE", again=True)])
    assert (metrics.usage_published.value, metrics.results_duplicate.value) == (0, 1)


def test_a_message_that_is_sent_back_is_counted_by_its_reason() -> None:
    observer, metrics = a_consumer_metrics(RecordedAlerts())
    observer.on_settled(a_delivery(), Retry(FAULT), False)
    observer.on_settled(a_delivery(), Retry(Fault("tenant_forbidden", "not here")), False)
    assert metrics.redeliveries == {("router-results", "nak"): 1, ("router-results", "tenant"): 1}


def test_only_the_consumer_that_answers_measures_how_long_an_answer_took() -> None:
    observer, metrics = a_consumer_metrics(RecordedAlerts())
    observer.on_settled(a_delivery(), Done(), True)
    assert sum(metrics.request_seconds.buckets().counts) == 0


def test_a_stored_dead_letter_alerts_once_and_a_paused_consumer_is_critical() -> None:
    told = RecordedAlerts()
    observer, _ = a_consumer_metrics(told)
    _dies(observer, 3)
    observer.on_flow("usage cannot be stored")
    observer.on_flow(None)
    assert [(alert["severity"], alert["metadata"]["cause"]) for alert in told.heard] == [
        ("info", "dead_letter_stored:work:validation_failed"),
        ("critical", "subscription_paused:router-results"),
    ]


def test_without_dead_letters_none_is_told_of() -> None:
    told = RecordedAlerts()
    observer, metrics = a_consumer_metrics(told, dlq={"enabled": False})
    _dies(observer, 2)
    assert (told.heard, metrics.dead_letters_disabled.value) == ([], 2)


def _dies(observer: ConsumerMetrics, times: int) -> None:
    for _ in range(times):
        observer.on_settled(a_delivery(), Dead(FAULT), True)


def test_a_message_that_a_replay_sent_is_counted_once_it_is_settled_for_good() -> None:
    observer, metrics = a_consumer_metrics(RecordedAlerts())
    replayed = replace(a_delivery(), headers={REPLAY_RUN: "r"})
    observer.on_settled(replayed, Retry(FAULT), False)
    observer.on_settled(replayed, Done(), True)
    observer.on_settled(a_delivery(), Done(), True)
    assert metrics.replayed.value == 1
