"""The overview: the first place to look at night."""

from parts import (
    BAD_FROM_ONE,
    GOOD_FROM_ONE,
    WARN_FROM_ONE,
    Board,
    Row,
    now,
    or_zero,
    panel,
    quantile,
    rate,
)

from boards.delivery import DELIVERY, FAILED

SIGNALS = Row(
    "The four golden signals",
    (
        panel(
            "Traffic: decisions",
            (
                "Decide requests answered, by how it ended. A fall to nothing while requests "
                "are stored is the alert RouterConsumerStalled."
            ),
            "reqps",
            (rate("router_decisions_total", "outcome"), "{{outcome}}"),
            kind="stacked",
        ),
        panel(
            "Errors: what is ours to mend",
            (
                "The share of answers that failed in routing, extensions or time, and messages "
                "that ended in the dead letters, a second."
            ),
            "percentunit",
            ("router:router_decisions_failed:ratio5m", "answers that failed"),
            (
                (
                    f"{rate('router_redelivery_total')} / ({rate('router_redelivery_total')} + "
                    f"{rate('router_jetstream_ack_total')})"
                ),
                "messages sent back",
            ),
        ),
        panel(
            "Latency: from stored to answered",
            "What a requester waits for. RouterAnswersSlow fires when p99 stays above 1 s.",
            "s",
            (quantile(0.5, "router_request_seconds"), "p50"),
            (quantile(0.9, "router_request_seconds"), "p90"),
            (quantile(0.99, "router_request_seconds"), "p99"),
        ),
        panel(
            "Saturation: processor",
            "One process is one core: at 1 it can do no more, and the backlog below grows.",
            "percentunit",
            (
                'rate(process_cpu_seconds_total{job="router",instance=~"$instance"}[$__rate_interval])',
                "{{instance}}",
            ),
        ),
    ),
)

STANDING = Row(
    "How it stands",
    (
        panel(
            "Ready",
            "The worst of all checks of /readyz.",
            "short",
            (now("router_ready", "min"), "ready"),
            kind="number",
            steps=GOOD_FROM_ONE,
        ),
        panel(
            "Connected",
            "1 while every process has its NATS server.",
            "short",
            (now("router_nats_connected", "min"), "connected"),
            kind="number",
            steps=GOOD_FROM_ONE,
        ),
        panel(
            "Consumers paused",
            "Subscriptions that wait for what must be stored.",
            "short",
            (now("router_consumer_paused"), "paused"),
            kind="number",
            steps=BAD_FROM_ONE,
        ),
        panel(
            "Lag",
            "Age of the oldest work.",
            "s",
            (now("router_consumer_lag_seconds", "max"), "lag"),
            kind="number",
        ),
        panel(
            "Dead letters",
            "Letters that stand there now: `router dlq list`.",
            "short",
            (or_zero(now("router_dlq_depth", "max", "subject, reason")), "letters"),
            kind="number",
            steps=WARN_FROM_ONE,
        ),
        panel(
            "Breakers open",
            "Extensions and providers that are left alone.",
            "short",
            (
                or_zero(now("router_circuit_breaker_state", "max", "kind, name", 'state="open"')),
                "open",
            ),
            kind="number",
            steps=WARN_FROM_ONE,
        ),
        panel(
            "Workers",
            "Workers that are heard.",
            "short",
            (now("router_workers_alive", "max"), "alive"),
            kind="number",
        ),
        panel(
            "Build",
            "The versions at work; two of them are a rollout under way.",
            "short",
            (now("router_build_info", "count", "version"), "{{version}}"),
            kind="number",
        ),
    ),
)

DECISIONS = Row(
    "Decisions",
    (
        panel(
            "By policy",
            "Answers by the policy that gave them.",
            "reqps",
            (rate("router_decisions_total", "policy"), "{{policy}}"),
        ),
        panel(
            "By provider",
            (
                "Where requests are sent; a provider that falls to nothing has an open "
                "breaker, or a new policy."
            ),
            "reqps",
            (rate("router_decisions_total", "provider", 'outcome="ok"'), "{{provider}}"),
            kind="stacked",
        ),
        panel(
            "By reason",
            (
                "Why that provider: weighted is the usual, fallback and "
                "circuit_breaker_fallback are not."
            ),
            "reqps",
            (rate("router_decisions_total", "reason", 'outcome="ok"'), "{{reason}}"),
            kind="stacked",
        ),
        panel(
            "Time to decide",
            "Handling alone: pipeline and policy, without storing and answering.",
            "s",
            (quantile(0.5, "router_decision_seconds"), "p50"),
            (quantile(0.99, "router_decision_seconds"), "p99"),
        ),
        panel(
            "Repeated, limited, sticky",
            "Requests answered with an earlier decision, above their rate, or by their session.",
            "reqps",
            (rate("router_idempotent_replays_total"), "replayed"),
            (rate("router_rate_limited_total"), "rate limited"),
            (rate("router_sticky_total", "outcome"), "sticky {{outcome}}"),
        ),
    ),
)

PROCESS = Row(
    "Processes and streams",
    (
        panel(
            "Memory",
            "Resident bytes; a slope that never ends is a leak.",
            "bytes",
            ('process_resident_memory_bytes{instance=~"$instance"}', "{{job}} {{instance}}"),
        ),
        panel(
            "Tasks",
            "Tasks of the event loop; like memory, they must not grow without end.",
            "short",
            ('router_asyncio_tasks{instance=~"$instance"}', "{{instance}}"),
        ),
        panel(
            "Collections",
            "Rounds of Python's cycle collector; the oldest generation's hold the loop longest.",
            "reqps",
            (rate("router_gc_collections_total", "generation"), "generation {{generation}}"),
        ),
        panel(
            "Stalls",
            "Callbacks that held the loop for 5 ms or longer, and all messages waited.",
            "reqps",
            (rate("router_loop_stalls_total", "callback"), "{{callback}}"),
        ),
        panel(
            "Stalled time",
            "The part of the time for which such callbacks held it.",
            "percentunit",
            (rate("router_loop_stall_seconds_total", "callback"), "{{callback}}"),
        ),
        panel(
            "Open files",
            "Sockets are files.",
            "short",
            ('process_open_fds{instance=~"$instance"}', "{{job}} {{instance}}"),
        ),
        panel(
            "Lines of the log that were lost",
            "Its disk is full, or what reads it stands still or is gone; the process goes on.",
            "short",
            (
                'increase(router_log_lines_lost_total{instance=~"$instance"}[5m])',
                "{{job}} {{instance}}",
            ),
        ),
        panel(
            "Reconnects",
            "Times that the broker came back.",
            "short",
            (
                'increase(router_nats_reconnects_total{instance=~"$instance"}[5m])',
                "{{job}} {{instance}}",
            ),
        ),
        panel(
            "How full streams are",
            (
                "One that discards the new refuses messages at 100 %, and consumers pause; one "
                "that discards the old loses its oldest."
            ),
            "percentunit",
            ("stream_discard:router_stream_fill:ratio", "{{stream}} ({{discard}})"),
        ),
    ),
)

BOARD = Board(
    "router-overview",
    "Router: overview",
    "Decisions, delivery, dead letters: is it there, does it move, what failed.",
    (SIGNALS, STANDING, DECISIONS, DELIVERY, FAILED, PROCESS),
)
