"""Every metric by name, except those of the bus (`bus.metrics`).

The app creates one `Metrics` and passes it to the objects that count; there is no global one. Label
values come from the specifications, or are bounded: `metrics.policy[policy_id]`.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable

from router import __version__
from router.process.observability.exposition import MetricRegistry
from router.process.observability.instruments import (
    Aggregation,
    AllowedLabels,
    BoundedLabels,
    CallbackGauge,
    Counter,
    ExemplarCounter,
    Gauge,
    Histogram,
    LabelledCounter,
    LabelledHistogram,
)
from router.process.observability.logs import count_lost_lines


class ParentMetrics:
    """The parent's own metrics with `--processes N`; all others on its page are its children's.
    `process`: 1 to N.
    """

    def __init__(self) -> None:
        self.registry = MetricRegistry()
        self.up = Gauge(
            "router_process_up",
            "1 while the process in this slot is ready and answers its parent",
            "process",
        )
        self.restarts = LabelledCounter(
            "router_process_restarts_total",
            "Processes that replaced another one",
            "process",
            "cause",
        )
        self.registry.add(self.up)
        self.registry.add(self.restarts)


class Metrics:
    """The instruments, and the bounded labels that they use."""

    def __init__(self, tenants: Iterable[str] = (), label_limit: int = 100) -> None:
        self.tenant = AllowedLabels(tenants)
        self.policy = BoundedLabels(label_limit)
        self.provider = BoundedLabels(label_limit)
        self.extension = BoundedLabels(label_limit)
        self.subject = BoundedLabels(label_limit)
        self.event_type = BoundedLabels(label_limit)
        self.partition = BoundedLabels(label_limit)
        self.registry = MetricRegistry()
        self._declare_decisions()
        self._declare_delivery()
        self._declare_workers()
        self._declare_extensions()
        self._declare_breakers()
        self._declare_outbox()
        self._declare_inbox()
        self._declare_agents()
        self._declare_gateway()
        self._declare_operators()
        self._declare_process()
        for instrument in vars(self).values():
            if isinstance(
                instrument,
                Counter | LabelledCounter | Histogram | LabelledHistogram | Gauge | CallbackGauge,
            ):
                self.registry.add(instrument)

    def _declare_decisions(self) -> None:
        self.decisions = LabelledCounter(
            "router_decisions_total",
            "Decide requests answered",
            "tenant",
            "policy",
            "provider",
            "reason",
            "outcome",
        )
        self.decision_seconds = Histogram(
            "router_decision_seconds", "From the start of handling to the decision"
        )
        self.request_seconds = Histogram(
            "router_request_seconds", "From storing the request to publishing the reply"
        )
        self.replays = Counter(
            "router_idempotent_replays_total",
            "Requests answered with the stored decision of an earlier, identical request",
        )
        self.rate_limited = Counter(
            "router_rate_limited_total", "Requests above the rate limit of their policy"
        )
        self.sticky = LabelledCounter(
            "router_sticky_total", "Lookups of sticky sessions", "outcome"
        )
        self.violations = ExemplarCounter(
            "router_nats_contract_violations_total",
            "Violations of the header contract",
            "subject",
            "header",
            "rule",
            "tenant",
        )
        broken = "Messages that violate the header contract, each counted once whatever it violates"
        self.violating_messages = LabelledCounter(
            "router_nats_contract_violating_messages_total", broken, "subject", "tenant"
        )
        self.violation_events_lost = Counter(
            "router_contract_events_lost_total",
            "Violations of the header contract without an event in their stream; they are counted",
        )

    def _declare_delivery(self) -> None:
        self.acks = LabelledCounter(
            "router_jetstream_ack_total", "Messages acknowledged", "consumer"
        )
        self.redeliveries = LabelledCounter(
            "router_redelivery_total",
            "Messages negatively acknowledged, so that the server redelivers them",
            "consumer",
            "reason",
        )
        self.dead_letters = LabelledCounter(
            "router_dlq_total", "Dead letters stored", "subject", "reason"
        )
        self.dead_letter_failures = Counter(
            "router_dlq_publish_failures_total", "Attempts to store a dead letter that failed"
        )
        self.dead_letters_stored = Gauge(
            "router_dlq_depth", "Dead letters in their stream", "subject", "reason"
        )
        self.dead_letters_truncated = Counter(
            "router_dlq_over_share_total",
            "Dead letters stored without payload, because their tenant has used up its share",
        )
        self.dead_letters_disabled = Counter(
            "router_dlq_disabled_total",
            "Messages given up without a dead letter, because dlq_enabled is off",
        )
        self.subjects_refused = Counter(
            "router_subject_refused_total", "Messages on a subject outside the allow list"
        )
        self.replies_refused = Counter(
            "router_reply_refused_total", "Reply addresses outside the reply prefixes"
        )
        self.pending = Gauge(
            "router_delivery_pending", "Messages in the stream not yet delivered", "consumer"
        )
        handled = "Messages being handled or settled here"
        self.in_flight = Gauge(
            "router_delivery_in_flight", handled, "consumer", aggregation=Aggregation.SUM
        )
        self.redelivered = Gauge(
            "router_delivery_redelivered",
            "Unacknowledged messages delivered more than once",
            "consumer",
        )
        self.lag_seconds = Gauge(
            "router_consumer_lag_seconds",
            "Age of the message handled last when it was delivered",
            "consumer",
        )
        live = "Requests taken from their live copy while the backlog is deep"
        self.live_requests = LabelledCounter("router_live_requests_total", live, "outcome")
        self.overloaded = Gauge(
            "router_overloaded",
            "1 while the backlog is deep: requests are answered from live copies, tenants in turn",
        )
        self.consumer_paused = Gauge(
            "router_consumer_paused",
            "1 while the consumer pulls nothing, because the broker stores nothing",
            "consumer",
        )
        waiting = (
            "Messages that wait because the stream that they must store to is full, missing or "
            "sealed"
        )
        self.storage_waiting = Gauge(
            "router_storage_waiting", waiting, "consumer", aggregation=Aggregation.SUM
        )
        needed = (
            "Messages that wait because a bucket that they need is unavailable; the others go on"
        )
        self.bucket_waiting = Gauge(
            "router_bucket_waiting", needed, "consumer", aggregation=Aggregation.SUM
        )
        refused = "Effects that a stream refused, by what happened to the message"
        self.storage_refused = LabelledCounter(
            "router_storage_refused_total", refused, "consumer", "what"
        )
        here = "1 while this router takes the partition's requests, or stands by for it"
        self.partition_routers = Gauge(
            "router_partition_routers", here, "partition", "state", aggregation=Aggregation.SUM
        )
        waits = "Requests in the partition's stream not yet delivered"
        self.partition_pending = Gauge("router_partition_pending", waits, "partition")
        attended = (
            "1 while a router renews the partition's lease; 0: no router takes its requests, "
            "which wait in its stream"
        )
        self.partition_attended = Gauge(
            "router_partition_attended", attended, "partition", aggregation=Aggregation.MIN
        )
        self.replayed = Counter(
            "router_dlq_replayed_total",
            "Messages replayed from the dead letters that were settled here",
        )
        self.unread_dropped = LabelledCounter(
            "router_unread_dropped_total",
            "Messages that their stream dropped before they were read",
            "consumer",
        )
        self.stream_bytes = Gauge("router_stream_bytes", "Bytes in a stream", "stream")
        missing = (
            "Copies of a stream that are offline or behind; a stream without a leader cannot "
            "be measured"
        )
        self.copies_missing = Gauge("router_stream_copies_missing", missing, "stream")
        self.stream_limit = Gauge(
            "router_stream_limit_bytes",
            "Limit of a stream in bytes; a full stream discards old or new messages",
            "stream",
            "discard",
        )

    def _declare_workers(self) -> None:
        self.assignments_published = Counter(
            "router_assignments_published_total", "Assignments stored for workers"
        )
        skipped = "Decisions of push policies that were answered without an assignment"
        self.assignments_skipped = LabelledCounter(
            "router_assignments_skipped_total", skipped, "reason"
        )
        self.assignments_removed = Counter(
            "router_assignments_removed_total", "Finished assignments removed from their stream"
        )
        self.assignment_acknowledgements = LabelledCounter(
            "router_acks_total", "Workers' acknowledgements of assignments", "status"
        )
        self.acknowledgements_uncorrelated = Counter(
            "router_acks_uncorrelated_total", "Acknowledgements of an unknown assignment"
        )
        self.results = LabelledCounter(
            "router_results_total", "Outcomes that workers reported", "status", "provider"
        )
        self.results_duplicate = Counter(
            "router_results_duplicate_total", "Results that repeated a metered outcome"
        )
        self.results_conflict = Counter(
            "router_results_conflict_total", "Results that contradicted a metered outcome"
        )
        self.results_uncorrelated = Counter(
            "router_results_uncorrelated_total", "Results of an unknown assignment"
        )
        overruled = "Fields in which results said otherwise than their assignment, which counts"
        self.results_overruled = LabelledCounter(
            "router_results_overruled_total", overruled, "field"
        )
        self.results_held = Counter(
            "router_results_held_total",
            "Results and invocations that cost more than their bound, which was booked",
        )
        self.results_corrected = Counter(
            "router_results_corrected_total",
            "Bills corrected by a later outcome of their assignment",
        )
        self.results_forged = Counter(
            "router_results_forged_total", "Results that contradict the assignment they name"
        )
        self.usage_published = Counter("router_usage_published_total", "Usage events stored")
        self.workers_alive = Gauge("router_workers_alive", "Workers whose heartbeats arrive")
        self.workers_silent = Gauge(
            "router_workers_silent",
            "Workers whose heartbeats stopped without a sign-off, within the last hour",
        )
        self.heartbeats_refused = Counter(
            "router_worker_heartbeats_refused_total",
            "Heartbeats that could not be read, or came from more workers than can be watched",
        )

    def _declare_extensions(self) -> None:
        self.extension_calls = LabelledCounter(
            "router_extension_calls_total",
            "Attempts to call an extension",
            "extension",
            "type",
            "status",
        )
        self.extension_seconds = LabelledHistogram(
            "router_extension_seconds",
            "From the call of an extension to its answer or its timeout",
            "extension",
        )

    def _declare_breakers(self) -> None:
        """`kind`: extension | provider; a provider's name is `tenant/provider`."""
        self.breaker_states = CallbackGauge(
            "router_circuit_breaker_state",
            "1 for the state that a breaker is in",
            "kind",
            "name",
            "state",
        )
        changes = "router_circuit_breaker_transitions_total"
        self.breaker_transitions = LabelledCounter(
            changes,
            "Changes of state, including those received from other instances",
            "kind",
            "name",
            "from",
            "to",
        )

    def _declare_outbox(self) -> None:
        self.outbox_backlog = Gauge(
            "router_outbox_backlog", "Events that are not published yet", "context"
        )
        self.outbox_oldest_seconds = Gauge(
            "router_outbox_oldest_seconds",
            "Age of the oldest event that is not published",
            "context",
        )
        self.outbox_parked = Gauge(
            "router_outbox_parked",
            "Events that cannot be published and wait for an operator",
            "context",
        )
        self.outbox_paused = Gauge(
            "router_outbox_paused",
            "1 while the broker or the database is unavailable, or refuses",
            "context",
        )
        self.outbox_published = LabelledCounter(
            "router_outbox_published_total", "Events published by this relay", "event_type"
        )
        again = "Events published again, because the broker had lost them"
        self.outbox_taken_back = Gauge(
            "router_outbox_taken_back", again, "context", aggregation=Aggregation.SUM
        )

    def _declare_inbox(self) -> None:
        self.inbox_backlog = Gauge(
            "router_inbox_backlog",
            "Messages that were received and are not processed yet",
            "context",
        )
        self.inbox_oldest_seconds = Gauge(
            "router_inbox_oldest_seconds",
            "Age of the oldest message that is not processed",
            "context",
        )
        handled = "Messages given to the handler, or known as duplicates, by outcome"
        self.inbox_handled = CallbackGauge(
            "router_inbox_handled_total", handled, "code", kind="counter"
        )
        self.inbox_paused = Gauge(
            "router_inbox_paused",
            "1 while the inbox waits for its database, its handler or the broker",
            "consumer",
        )

    def _declare_agents(self) -> None:
        """Of `router agent run --http-port`; `router_consumer_paused` has its consumers."""

        def create_counter(name: str, text: str) -> CallbackGauge:
            return CallbackGauge(f"router_agent_{name}_total", text, "agent", kind="counter")

        self.agent_applied = create_counter("applied", "Messages acknowledged, duplicates included")
        self.agent_duplicates = create_counter("duplicates", "Messages that were applied before")
        self.agent_dead = create_counter(
            "dead", "Messages that became dead letters, for any reason"
        )
        self.agent_given_up = create_counter(
            "given_up", "Dead letters whose message used up its attempts"
        )
        self.agent_store_bytes = Gauge(
            "router_agent_store_bytes", "Size of an agent's store on disk", "agent"
        )
        self.agent_rescued = create_counter(
            "rescued", "Messages that the server had stopped delivering, fetched and handled"
        )

    def _declare_gateway(self) -> None:
        """Of `router gateway`. `status`: of HTTP; 499 is a client that left."""
        self.gateway_requests = LabelledCounter(
            "router_gateway_requests_total",
            "Requests of HTTP clients, by what they were answered",
            "api",
            "status",
            "tenant",
        )
        self.gateway_request_seconds = Histogram(
            "router_gateway_request_seconds",
            "From the headers of a request to its whole answer; of a stream, to its first event",
        )
        self.gateway_first_byte_seconds = Histogram(
            "router_gateway_first_byte_seconds",
            "From the headers of a request to the first event of its stream",
        )
        self.gateway_streams = Gauge(
            "router_gateway_streams",
            "Streams that are open to HTTP clients",
            aggregation=Aggregation.SUM,
        )
        self.gateway_failovers = LabelledCounter(
            "router_gateway_failovers_total",
            "Attempts that failed before their first byte and were followed by another",
            "provider",
            "code",
        )
        self.gateway_keys_refused = LabelledCounter(
            "router_gateway_keys_refused_total",
            "Requests that were not let in: a wrong key, one above its rate, a slowed address",
            "cause",
        )

    def _declare_operators(self) -> None:
        self.admin_keys_refused = Counter(
            "router_admin_keys_refused_total",
            "Requests of operators' services without a valid api_key",
        )

    def _declare_process(self) -> None:
        self.ready = CallbackGauge(
            "router_ready",
            "1 while a check of /readyz passes",
            "check",
            aggregation=Aggregation.MIN,
        )
        self.connected = Gauge(
            "router_nats_connected", "1 while the broker is connected", aggregation=Aggregation.MIN
        )
        self.reconnects = Counter("router_nats_reconnects_total", "Reconnects to the broker")
        tasks = "Tasks of the event loop; the number must not grow with the messages handled"
        self.tasks = Gauge("router_asyncio_tasks", tasks, aggregation=Aggregation.SUM)
        self.collections = CallbackGauge(
            "router_gc_collections_total",
            "Runs of the cycle collector",
            "generation",
            kind="counter",
        )
        self.loop_stalls = CallbackGauge(
            "router_loop_stalls_total",
            "Callbacks that held the event loop for 5 ms or longer, by name",
            "callback",
            kind="counter",
            aggregation=Aggregation.SUM,
        )
        self.loop_stall_seconds = CallbackGauge(
            "router_loop_stall_seconds_total",
            "Seconds for which they held it",
            "callback",
            kind="counter",
            aggregation=Aggregation.SUM,
        )
        failing = "1 while a background task of this process fails, and for a minute after"
        self.helper_failing = CallbackGauge("router_helper_failing", failing, "helper")
        lost = (
            "Lines of the log that could not be written: its disk is full, or its reader "
            "stands still or is gone"
        )
        self.log_lines_lost = CallbackGauge(
            "router_log_lines_lost_total", lost, kind="counter", aggregation=Aggregation.SUM
        )
        self.log_lines_lost.set_function(lambda: {(): count_lost_lines()})
        self.build_info = Gauge(
            "router_build_info", "Always 1; the labels are the build", "version", "python"
        )
        self.build_info.set(1, __version__, platform.python_version())
