"""Assignments, results and usage: what was given to workers, what they told, what was metered."""

from parts import Board, Row, now, panel, rate

BOARD = Board(
    "router-usage",
    "Router: usage and lake",
    (
        "From an assignment to a usage event; what the lake has to take. What is in its tables "
        "is said by `router usage reconcile`."
    ),
    (
        Row(
            "The four golden signals",
            (
                panel(
                    "Traffic: results",
                    "Outcomes that workers reported.",
                    "reqps",
                    (rate("router_results_total", "status"), "{{status}}"),
                    kind="stacked",
                ),
                panel(
                    "Errors: what does not add up",
                    (
                        "Forged results contradict their assignment; a conflict is one outcome "
                        "told twice, differently."
                    ),
                    "reqps",
                    (rate("router_results_forged_total"), "forged"),
                    (rate("router_results_conflict_total"), "conflicts"),
                    (rate("router_results_uncorrelated_total"), "of an unknown assignment"),
                    (rate("router_results_overruled_total"), "overruled by their assignment"),
                    (rate("router_results_corrected_total"), "correcting a bill"),
                    (rate("router_results_held_total"), "with a held cost"),
                ),
                panel(
                    "Latency: results behind",
                    "How late results are handled.",
                    "s",
                    (
                        now(
                            "router_consumer_lag_seconds",
                            "max",
                            "consumer",
                            'consumer!~".*decide.*"',
                        ),
                        "{{consumer}}",
                    ),
                ),
                panel(
                    "Saturation: room in what is stored",
                    "Full, the usage stream refuses events and results wait.",
                    "percentunit",
                    ('stream_discard:router_stream_fill:ratio{discard="new"}', "{{stream}}"),
                ),
            ),
        ),
        Row(
            "Workers",
            (
                panel(
                    "Assignments",
                    (
                        "Stored for workers, removed from their stream when they are done, or "
                        "asked for and skipped."
                    ),
                    "reqps",
                    (rate("router_assignments_published_total"), "published"),
                    (rate("router_assignments_skipped_total", "reason"), "skipped: {{reason}}"),
                    (rate("router_assignments_removed_total"), "removed"),
                ),
                panel(
                    "Acknowledged by workers",
                    "rejected and error are work that a worker must do again.",
                    "reqps",
                    (rate("router_acks_total", "status"), "{{status}}"),
                    (rate("router_acks_uncorrelated_total"), "of an unknown assignment"),
                    kind="stacked",
                ),
                panel(
                    "Workers",
                    "Heard, and fallen silent without a good-bye.",
                    "short",
                    (now("router_workers_alive", "max"), "alive"),
                    (now("router_workers_silent", "max"), "silent"),
                ),
                panel(
                    "Heartbeats refused",
                    "Heartbeats that could not be read, or found no room.",
                    "reqps",
                    (rate("router_worker_heartbeats_refused_total"), "refused"),
                ),
            ),
        ),
        Row(
            "Metered",
            (
                panel(
                    "Results by provider",
                    "Who did the work.",
                    "reqps",
                    (rate("router_results_total", "provider"), "{{provider}}"),
                    kind="stacked",
                ),
                panel(
                    "Usage events",
                    (
                        "Stored; beside them outcomes that were metered before. Together they "
                        "are the results."
                    ),
                    "reqps",
                    (rate("router_usage_published_total"), "stored"),
                    (rate("router_results_duplicate_total"), "metered before"),
                    kind="stacked",
                ),
                panel(
                    "What the lake has to take",
                    (
                        "Bytes that the streams hold; the usage stream keeps 90 days, whether "
                        "the lake has read them or not."
                    ),
                    "bytes",
                    (
                        now(
                            "router_stream_bytes",
                            "max",
                            "stream",
                            'stream=~".*(USAGE|RESULTS|ASSIGNMENTS)"',
                        ),
                        "{{stream}}",
                    ),
                ),
                panel(
                    "How fast the usage stream grows",
                    "Bytes a second, over an hour; its limit over this is the time that is left.",
                    "Bps",
                    (
                        "deriv("
                        + now("router_stream_bytes", "max", "stream", 'stream=~".*USAGE"')
                        + "[1h:1m])",
                        "{{stream}}",
                    ),
                ),
            ),
        ),
    ),
)
