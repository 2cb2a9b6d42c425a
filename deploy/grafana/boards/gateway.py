"""The HTTP gateway: what clients asked, what they were answered, which providers were left."""

from parts import Board, Row, now, panel, quantile, rate

BOARD = Board(
    "router-gateway",
    "Router: HTTP gateway",
    "Requests of HTTP clients, their answers, streams, keys and failovers, from each gateway.",
    (
        Row(
            "The four golden signals",
            (
                panel(
                    "Traffic",
                    "Requests a second, by API.",
                    "reqps",
                    (rate("router_gateway_requests_total", "api"), "{{api}}"),
                    kind="stacked",
                ),
                panel(
                    "Errors",
                    (
                        "Answers of 400 and above. 5xx is the gateway's, the router's or a "
                        "provider's fault; 499 is a client that left."
                    ),
                    "reqps",
                    (
                        rate("router_gateway_requests_total", "status", 'status=~"[45].."'),
                        "{{status}}",
                    ),
                    kind="stacked",
                ),
                panel(
                    "Latency",
                    "Until the whole answer, or a stream's first event: mostly the provider's time.",
                    "s",
                    (quantile(0.5, "router_gateway_request_seconds"), "p50"),
                    (quantile(0.99, "router_gateway_request_seconds"), "p99"),
                    (quantile(0.99, "router_gateway_first_byte_seconds"), "p99, first event"),
                ),
                panel(
                    "Saturation: streams that are open",
                    "A process serves gateway.at_once requests; above it clients are told to wait.",
                    "short",
                    (now("router_gateway_streams", "max", "instance"), "{{instance}}"),
                ),
            ),
        ),
        Row(
            "Tenants and keys",
            (
                panel(
                    "Requests by tenant",
                    "Tenants of metrics.tenant_label_allowlist; all others are one.",
                    "reqps",
                    (rate("router_gateway_requests_total", "tenant"), "{{tenant}}"),
                    kind="stacked",
                ),
                panel(
                    "Not let in",
                    (
                        "wrong: a key that is unknown, expired or revoked; rate: a key above its "
                        "rate; slowed: an address that guessed."
                    ),
                    "reqps",
                    (rate("router_gateway_keys_refused_total", "cause"), "{{cause}}"),
                    kind="stacked",
                ),
            ),
        ),
        Row(
            "Failover",
            (
                panel(
                    "Providers that were left",
                    "Attempts that failed before their first byte, so that another provider was asked.",
                    "reqps",
                    (
                        rate("router_gateway_failovers_total", "provider, code"),
                        "{{provider}}: {{code}}",
                    ),
                    kind="stacked",
                ),
                panel(
                    "Share of requests",
                    "Further attempts for each request. A tenant has them for gateway.retry_percent.",
                    "percentunit",
                    (
                        f"({rate('router_gateway_failovers_total')} or vector(0))"
                        f" / {rate('router_gateway_requests_total')}",
                        "failovers",
                    ),
                ),
            ),
        ),
    ),
)
