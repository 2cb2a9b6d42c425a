"""What is counted, and what a scrape shows of it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.process.observability import (
    OTHER,
    AllowedLabels,
    BoundedLabels,
    Counter,
    Gauge,
    Histogram,
    LabelledCounter,
    MetricRegistry,
    Metrics,
)
from router.process.observability.instruments import CallbackGauge, label_of
from tests.support.observability import capture_log, parse_scrape

# The reference's metrics of what is built, with their labels.
REFERENCE = {
    "router_decisions_total": ("tenant", "policy", "provider", "reason", "outcome"),
    "router_jetstream_ack_total": ("consumer",),
    "router_redelivery_total": ("consumer", "reason"),
    "router_dlq_total": ("subject", "reason"),
    "router_nats_contract_violations_total": ("subject", "header", "rule", "tenant"),
    "router_sticky_total": ("outcome",),
    "router_decision_seconds": (),
    "router_request_seconds": (),
    "router_delivery_pending": ("consumer",),
    "router_delivery_in_flight": ("consumer",),
    "router_delivery_redelivered": ("consumer",),
    "router_consumer_lag_seconds": ("consumer",),
    "router_consumer_paused": ("consumer",),
    "router_overloaded": (),
    "router_live_requests_total": ("outcome",),
    "router_dlq_publish_failures_total": (),
    "router_idempotent_replays_total": (),
    "router_rate_limited_total": (),
    "router_nats_connected": (),
    "router_nats_reconnects_total": (),
    "router_build_info": ("version", "python"),
    "router_dlq_disabled_total": (),
    "router_subject_refused_total": (),
    "router_reply_refused_total": (),
    "router_dlq_depth": ("subject", "reason"),
    "router_dlq_replayed_total": (),
    "router_assignments_published_total": (),
    "router_assignments_skipped_total": ("reason",),
    "router_acks_total": ("status",),
    "router_results_total": ("status", "provider"),
    "router_results_duplicate_total": (),
    "router_results_uncorrelated_total": (),
    "router_usage_published_total": (),
    "router_workers_alive": (),
    "router_extension_calls_total": ("extension", "type", "status"),
    "router_extension_seconds": ("extension",),
    "router_circuit_breaker_state": ("kind", "name", "state"),
    "router_circuit_breaker_transitions_total": ("kind", "name", "from", "to"),
}

# What the reference does not name, and operators of the circle want.
BESIDE = {
    "router_nats_contract_violating_messages_total": ("subject", "tenant"),
    "router_contract_events_lost_total": (),
    "router_partition_routers": ("partition", "state"),
    "router_partition_pending": ("partition",),
    "router_partition_attended": ("partition",),
    "router_asyncio_tasks": (),
    "router_gc_collections_total": ("generation",),
    "router_loop_stalls_total": ("callback",),
    "router_loop_stall_seconds_total": ("callback",),
    "router_log_lines_lost_total": (),
    "router_acks_uncorrelated_total": (),
    "router_results_conflict_total": (),
    "router_results_forged_total": (),
    "router_results_corrected_total": (),
    "router_results_held_total": (),
    "router_results_overruled_total": ("field",),
    "router_admin_keys_refused_total": (),
    "router_worker_heartbeats_refused_total": (),
    "router_workers_silent": (),
    "router_helper_failing": ("helper",),
    "router_ready": ("check",),
    "router_assignments_removed_total": (),
    "router_unread_dropped_total": ("consumer",),
    "router_dlq_over_share_total": (),
    "router_storage_waiting": ("consumer",),
    "router_bucket_waiting": ("consumer",),
    "router_storage_refused_total": ("consumer", "what"),
    "router_stream_bytes": ("stream",),
    "router_stream_copies_missing": ("stream",),
    "router_stream_limit_bytes": ("stream", "discard"),
}

# SDS-047: QRY-050 and QRY-051, EVT-047-001, and what an operator of either half must see.
MAILBOX = {
    "router_outbox_backlog": ("context",),
    "router_outbox_oldest_seconds": ("context",),
    "router_outbox_parked": ("context",),
    "router_outbox_paused": ("context",),
    "router_outbox_published_total": ("event_type",),
    "router_outbox_taken_back": ("context",),
    "router_inbox_backlog": ("context",),
    "router_inbox_handled_total": ("code",),
    "router_inbox_oldest_seconds": ("context",),
    "router_inbox_paused": ("consumer",),
}

# MeshForge: the reference's two, and what an operator of an agent must see.
GATEWAY = {
    "router_gateway_requests_total": ("api", "status", "tenant"),
    "router_gateway_request_seconds": (),
    "router_gateway_first_byte_seconds": (),
    "router_gateway_streams": (),
    "router_gateway_failovers_total": ("provider", "code"),
    "router_gateway_keys_refused_total": ("cause",),
}
AGENTS = {
    f"router_agent_{name}_total": ("agent",)
    for name in ("applied", "duplicates", "dead", "given_up", "rescued")
} | {"router_agent_store_bytes": ("agent",)}


def with_only(
    instrument: Counter | LabelledCounter | Histogram | Gauge | CallbackGauge,
) -> MetricRegistry:
    registry = MetricRegistry()
    registry.add(instrument)
    return registry


def test_every_metric_of_the_reference_is_declared_with_its_labels() -> None:
    assert {family.name: family.labels for family in Metrics().registry.snapshot()} == {
        **REFERENCE,
        **BESIDE,
        **MAILBOX,
        **AGENTS,
        **GATEWAY,
    }


def test_what_is_counted_is_what_is_scraped() -> None:
    metrics = Metrics()
    metrics.acks["router-decide-consumer",] += 2
    metrics.replays.value += 1
    metrics.in_flight.set_function(lambda: 7, "router-decide-consumer")
    seen = parse_scrape(metrics.registry)
    assert seen["router_jetstream_ack_total"] == {(("consumer", "router-decide-consumer"),): 2}
    assert seen["router_idempotent_replays_total"] == {(): 1}
    assert seen["router_delivery_in_flight"] == {(("consumer", "router-decide-consumer"),): 7}
    assert seen["process_resident_memory_bytes"][()] > 0


def test_a_label_is_escaped() -> None:
    tally = LabelledCounter("t_total", "t", "subject")
    tally['a"b\\c\nd',] += 1
    assert parse_scrape(with_only(tally))["t_total"] == {(("subject", 'a"b\\c\nd'),): 1}


def test_a_name_is_registered_once() -> None:
    registry = with_only(Counter("a_total", "a"))
    with pytest.raises(ValueError, match="a_total"):
        registry.add(Counter("a_total", "a"))


def test_a_snapshot_does_not_change_with_what_is_counted_later() -> None:
    tally = LabelledCounter("t_total", "t", "x")
    tally["a",] += 1
    (family,) = with_only(tally).snapshot()
    tally["a",] += 1
    assert family.series == {("a",): 1}


@given(st.lists(st.floats(0, 100)))
def test_a_spread_counts_what_is_at_or_below_each_edge(values: list[float]) -> None:
    spread = Histogram("s_seconds", "s", (0.5, 1.0, 10.0))
    for value in values:
        spread.observe(value)
    seen = parse_scrape(with_only(spread))
    for edge, label in ((0.5, "0.5"), (1.0, "1.0"), (10.0, "10.0"), (math.inf, "+Inf")):
        assert seen["s_seconds_bucket"][(("le", label),)] == sum(value <= edge for value in values)
    assert seen["s_seconds_count"][()] == len(values)
    assert seen["s_seconds_sum"][()] == pytest.approx(sum(values))


def test_a_gauge_reads_anew_at_each_scrape_and_a_new_reader_replaces_the_old_one() -> None:
    gauge = Gauge("g", "g")
    depth = [1, 2]
    gauge.set_function(depth.pop)
    registry = with_only(gauge)
    assert [parse_scrape(registry)["g"][()], parse_scrape(registry)["g"][()]] == [2, 1]
    gauge.set_function(lambda: 9)
    assert parse_scrape(registry)["g"] == {(): 9}


def test_a_broken_reader_is_unknown_told_once_and_takes_no_other_metric_with_it() -> None:
    gauge = Gauge("g", "g", "x")
    gauge.set_function(lambda: 1 // 0, "bad")
    gauge.set(3, "good")
    with capture_log() as lines:
        parse_scrape(with_only(gauge))
        seen = parse_scrape(with_only(gauge))["g"]
    assert math.isnan(seen[("x", "bad"),])
    assert seen[("x", "good"),] == 3
    assert lines.only()["event"] == "gauge.failed"


@given(st.lists(st.text(max_size=3)), st.integers(0, 5))
def test_labels_are_bounded_first_come_first_served(names: list[str], limit: int) -> None:
    bounded = BoundedLabels(limit)
    labels = [bounded[name] for name in names]
    first = list(dict.fromkeys(map(label_of, names)))[:limit]
    assert labels == [label if (label := label_of(name)) in first else OTHER for name in names]
    assert len(bounded) <= limit


def test_only_allowed_tenants_have_a_label_and_the_list_does_not_grow() -> None:
    allowed = AllowedLabels(["acme"])
    assert [allowed["acme"], allowed["evil"], allowed["evil"]] == ["acme", OTHER, OTHER]
    assert len(allowed) == 1


def test_the_series_of_a_census_come_and_go() -> None:
    census, there = CallbackGauge("c", "c", "x"), {("a",): 1}
    assert parse_scrape(with_only(census)).get("c", {}) == {}
    census.set_function(lambda: there)
    assert parse_scrape(with_only(census))["c"] == {(("x", "a"),): 1}
    (before,) = with_only(census).snapshot()
    there.clear()
    assert before.series == {("a",): 1}
    assert parse_scrape(with_only(census)).get("c", {}) == {}
