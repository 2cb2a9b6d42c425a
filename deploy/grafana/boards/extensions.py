"""Extensions and circuit breakers: who is asked on the way of a decision, and who is left alone."""

from parts import Board, Row, now, or_zero, panel, quantile, rate

FAILING = 'status=~"error|timeout|unavailable|open"'

BOARD = Board(
    "router-extensions",
    "Router: extensions and breakers",
    "Pre-processors, validators, post-processors and providers: calls, failures, time, breakers.",
    (
        Row(
            "The four golden signals",
            (
                panel(
                    "Traffic: calls",
                    "Attempts, so a retry counts again.",
                    "reqps",
                    (rate("router_extension_calls_total", "extension"), "{{extension}}"),
                    kind="stacked",
                ),
                panel(
                    "Errors: the share of calls that fail",
                    (
                        "Errors, timeouts, no server, breaker open. Half of ten calls in a "
                        "minute opens the breaker."
                    ),
                    "percentunit",
                    ("extension:router_extension_calls_failed:ratio5m", "{{extension}}"),
                ),
                panel(
                    "Latency: p99 of a call",
                    "From the call to its answer, or to none.",
                    "s",
                    (quantile(0.99, "router_extension_seconds", "extension"), "{{extension}}"),
                ),
                panel(
                    "Saturation: refused as overloaded",
                    (
                        "Requests answered overloaded because slots and queue are full, or too "
                        "late for their deadline."
                    ),
                    "reqps",
                    (
                        or_zero(rate("router_decisions_total", "", 'outcome="overloaded"')),
                        "overloaded",
                    ),
                    (
                        or_zero(rate("router_decisions_total", "", 'outcome="deadline_exceeded"')),
                        "too late",
                    ),
                ),
            ),
        ),
        Row(
            "Calls",
            (
                panel(
                    "By how they ended",
                    (
                        "ok, error, timeout, unavailable (no process serves it), open (its "
                        "breaker), refused (the call was wrong), late."
                    ),
                    "reqps",
                    (rate("router_extension_calls_total", "status"), "{{status}}"),
                    kind="stacked",
                ),
                panel(
                    "By type",
                    "Where in the pipeline they stand.",
                    "reqps",
                    (rate("router_extension_calls_total", "type"), "{{type}}"),
                ),
                panel(
                    "Failures",
                    "Which one, and how.",
                    "reqps",
                    (
                        rate("router_extension_calls_total", "extension, status", FAILING),
                        "{{extension}} {{status}}",
                    ),
                ),
                panel(
                    "Median of a call",
                    "The time that each usually takes.",
                    "s",
                    (quantile(0.5, "router_extension_seconds", "extension"), "{{extension}}"),
                ),
            ),
        ),
        Row(
            "Circuit breakers",
            (
                panel(
                    "Open",
                    (
                        "Left alone: calls fail at once, decisions use fallbacks. `router "
                        "extension health` says since when."
                    ),
                    "short",
                    (
                        now("router_circuit_breaker_state", "max", "kind, name", 'state="open"'),
                        "{{kind}} {{name}}",
                    ),
                    kind="states",
                    steps=((None, "green"), (1.0, "red")),
                ),
                panel(
                    "Half open",
                    "Probed: a few calls decide whether it closes.",
                    "short",
                    (
                        now(
                            "router_circuit_breaker_state", "max", "kind, name", 'state="half_open"'
                        ),
                        "{{kind}} {{name}}",
                    ),
                    kind="states",
                    steps=((None, "green"), (1.0, "orange")),
                ),
                panel(
                    "Changes",
                    "A breaker that opens again and again has a service that is not well.",
                    "reqps",
                    (
                        rate("router_circuit_breaker_transitions_total", "name, to"),
                        "{{name}} to {{to}}",
                    ),
                ),
            ),
        ),
    ),
)
