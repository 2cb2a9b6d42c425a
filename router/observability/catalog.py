"""Every metric by name (docs/operators.md#metrics). A metric that is not declared here does not exist.

One `Metrics` is made by the app and handed to who counts: there is no global. Labels are values from the
specifications or go through the bounds: `metrics.policy[policy_id]`.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable

from router import __version__
from router.observability.bounds import Allowed, Bounded
from router.observability.exposition import Registry
from router.observability.instruments import Census, Count, Gauge, Spread, Spreads, Tally, Together


class ParentMetrics:
    """What the parent of several worker processes counts itself; all else on its page is theirs. `worker`: 1 to N."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.up = Gauge("router_process_up", "1 while the process in this seat is ready and answers its parent", "worker")
        self.restarts = Tally("router_process_restarts_total", "Processes that took the place of another", "worker", "cause")
        self.registry.add(self.up)
        self.registry.add(self.restarts)


class Metrics:
    """The instruments, and the bounds that their labels go through."""

    def __init__(self, tenants: Iterable[str] = (), label_limit: int = 100) -> None:
        self.tenant = Allowed(tenants)
        self.policy = Bounded(label_limit)
        self.provider = Bounded(label_limit)
        self.extension = Bounded(label_limit)
        self.subject = Bounded(label_limit)
        self.event_type = Bounded(label_limit)
        self.registry = Registry()
        self._declare_decisions()
        self._declare_delivery()
        self._declare_workers()
        self._declare_extensions()
        self._declare_breakers()
        self._declare_outbox()
        self._declare_inbox()
        self._declare_agents()
        self._declare_operators()
        self._declare_process()
        for instrument in vars(self).values():
            if isinstance(instrument, Count | Tally | Spread | Spreads | Gauge | Census):
                self.registry.add(instrument)

    def _declare_decisions(self) -> None:
        self.decisions = Tally("router_decisions_total", "Decide requests answered", "tenant", "policy", "provider", "reason", "outcome")
        self.decision_seconds = Spread("router_decision_seconds", "From the start of handling to the decision")
        self.request_seconds = Spread("router_request_seconds", "From stored to replied")
        self.replays = Count("router_idempotent_replays_total", "Requests answered with the decision of an earlier one")
        self.rate_limited = Count("router_rate_limited_total", "Requests above their policy's rate")
        self.sticky = Tally("router_sticky_total", "Sticky sessions looked up", "outcome")
        self.violations = Tally("router_nats_contract_violations_total", "Broken header rules", "subject", "header", "rule")

    def _declare_delivery(self) -> None:
        self.acks = Tally("router_jetstream_ack_total", "Messages acknowledged", "consumer")
        self.redeliveries = Tally("router_redelivery_total", "Messages sent back to be delivered again", "consumer", "reason")
        self.letters = Tally("router_dlq_total", "Dead letters stored", "subject", "reason")
        self.letter_failures = Count("router_dlq_publish_failures_total", "Dead letters that could not be stored at once")
        self.letters_waiting = Gauge("router_dlq_depth", "Dead letters that stand there", "subject", "reason")
        self.letters_cut = Count("router_dlq_over_share_total", "Dead letters without payload, for their tenant holds more than its share")
        self.letters_disabled = Count("router_dlq_disabled_total", "Messages given up without a letter, because dlq_enabled is off")
        self.subjects_refused = Count("router_subject_refused_total", "Messages on a subject outside the allow list")
        self.replies_refused = Count("router_reply_refused_total", "Reply addresses outside the reply prefixes")
        self.pending = Gauge("router_delivery_pending", "Messages in the stream not yet delivered", "consumer")
        handled = "Messages being handled or settled here"
        self.in_flight = Gauge("router_delivery_in_flight", handled, "consumer", together=Together.SUM)
        self.redelivered = Gauge("router_delivery_redelivered", "Unacknowledged messages delivered more than once", "consumer")
        self.lag_seconds = Gauge("router_consumer_lag_seconds", "Age of the message handled last when it was delivered", "consumer")
        live = "Requests taken from their live copy while the backlog is deep"
        self.live_requests = Tally("router_live_requests_total", live, "outcome")
        self.overloaded = Gauge("router_overloaded", "1 while the backlog is deep: requests are answered from live copies, tenants in turn")
        self.lane_paused = Gauge("router_lane_paused", "1 while nothing is taken, for the broker stores nothing", "consumer")
        waiting = "Messages that wait because a stream has no room for what they must store"
        self.storage_waiting = Gauge("router_storage_waiting", waiting, "consumer", together=Together.SUM)
        refused = "Times a stream had no room for an effect, by what became of its message"
        self.storage_refused = Tally("router_storage_refused_total", refused, "consumer", "what")
        self.replayed = Count("router_dlq_replayed_total", "Messages sent again from the dead letters that were settled here")
        self.unread_dropped = Tally("router_unread_dropped_total", "Messages that their stream dropped before they were read", "consumer")
        self.stream_bytes = Gauge("router_stream_bytes", "What a stream holds", "stream")
        self.stream_limit = Gauge(
            "router_stream_limit_bytes", "What a stream may hold; full, it discards the old or the new", "stream", "discard"
        )

    def _declare_workers(self) -> None:
        self.assignments_published = Count("router_assignments_published_total", "Assignments stored for workers")
        skipped = "Decisions that were to be pushed and were answered without an assignment"
        self.assignments_skipped = Tally("router_assignments_skipped_total", skipped, "reason")
        self.assignments_removed = Count("router_assignments_removed_total", "Assignments that were done, and left their stream")
        self.assignment_acks = Tally("router_acks_total", "Workers' acknowledgements of assignments", "status")
        self.acks_uncorrelated = Count("router_acks_uncorrelated_total", "Acknowledgements of an assignment that nobody knows")
        self.results = Tally("router_results_total", "Outcomes that workers reported", "status", "provider")
        self.results_duplicate = Count("router_results_duplicate_total", "Results that told a metered outcome again")
        self.results_conflict = Count("router_results_conflict_total", "Results that told a metered outcome differently")
        self.results_uncorrelated = Count("router_results_uncorrelated_total", "Results of an assignment that nobody knows")
        self.results_forged = Count("router_results_forged_total", "Results that contradict the assignment they name")
        self.usage_published = Count("router_usage_published_total", "Usage events stored")
        self.workers_alive = Gauge("router_workers_alive", "Workers that are heard")
        self.workers_silent = Gauge("router_workers_silent", "Workers that fell silent without a word, within the last hour")
        self.heartbeats_refused = Count("router_worker_heartbeats_refused_total", "Heartbeats that could not be read or found no room")

    def _declare_extensions(self) -> None:
        self.extension_calls = Tally("router_extension_calls_total", "Attempts to call an extension", "extension", "type", "status")
        self.extension_seconds = Spreads("router_extension_seconds", "From an extension's call to its answer, or to none", "extension")

    def _declare_breakers(self) -> None:
        """`kind`: extension | provider; a provider's name is `tenant/provider`."""
        self.breaker_states = Census("router_circuit_breaker_state", "1 for the state that a breaker is in", "kind", "name", "state")
        changes = "router_circuit_breaker_transitions_total"
        self.breaker_transitions = Tally(changes, "Changes of state, also those taken over", "kind", "name", "from", "to")

    def _declare_outbox(self) -> None:
        self.outbox_backlog = Gauge("router_outbox_backlog", "Events that are not published (QRY-050)", "context")
        self.outbox_oldest_seconds = Gauge("router_outbox_oldest_seconds", "Age of the oldest event that is not published", "context")
        self.outbox_parked = Gauge("router_outbox_parked", "Events that cannot be published, and wait for an operator", "context")
        self.outbox_paused = Gauge("router_outbox_paused", "1 while the broker or the database is away, or refuses", "context")
        self.outbox_published = Tally("router_outbox_published_total", "Events published by this relay (EVT-047-001)", "event_type")
        again = "Events published again, for the broker had lost them"
        self.outbox_taken_back = Gauge("router_outbox_taken_back", again, "context", together=Together.SUM)

    def _declare_inbox(self) -> None:
        self.inbox_backlog = Gauge("router_inbox_backlog", "Messages that were received and are not processed (QRY-051)", "context")
        self.inbox_oldest_seconds = Gauge("router_inbox_oldest_seconds", "Age of the oldest of these", "context")
        handled = "Messages told to the handler, or known already, by what became of them"
        self.inbox_handled = Census("router_inbox_handled_total", handled, "code", kind="counter")
        self.inbox_paused = Gauge("router_inbox_paused", "1 while the inbox waits for what it stands on", "consumer")

    def _declare_agents(self) -> None:
        """Of `router agent run --http-port`; its lanes stand in `router_lane_paused`."""

        def counted(name: str, text: str) -> Census:
            return Census(f"router_agent_{name}_total", text, "agent", kind="counter")

        self.agent_applied = counted("applied", "Messages acknowledged, duplicates included")
        self.agent_duplicates = counted("duplicates", "Messages that were applied before")
        self.agent_dead = counted("dead", "Messages in the dead letters, for whatever reason")
        self.agent_given_up = counted("given_up", "Of these, those begun as often as allowed")
        self.agent_store_bytes = Gauge("router_agent_store_bytes", "What an agent's store takes on its disk", "agent")
        self.agent_rescued = counted("rescued", "Messages that the server had given up, fetched and handled")

    def _declare_operators(self) -> None:
        self.admin_keys_refused = Count("router_admin_keys_refused_total", "Requests of operators' services without a valid api_key")

    def _declare_process(self) -> None:
        self.ready = Census("router_ready", "1 while a check behind /readyz is well", "check", together=Together.LEAST)
        self.connected = Gauge("router_nats_connected", "1 while the broker is connected", together=Together.LEAST)
        self.reconnects = Count("router_nats_reconnects_total", "Times the broker came back")
        tasks = "Tasks of the event loop; they may not grow with what was handled"
        self.tasks = Gauge("router_asyncio_tasks", tasks, together=Together.SUM)
        self.collections = Census("router_gc_collections_total", "Runs of the cycle collector", "generation", kind="counter")
        failing = "1 while a helper of this process fails, and for a minute after: figures, retention, a sweep"
        self.helper_failing = Census("router_helper_failing", failing, "helper")
        self.build_info = Gauge("router_build_info", "Always 1; the labels are the build", "version", "python")
        self.build_info.set(1, __version__, platform.python_version())
