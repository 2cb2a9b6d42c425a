"""Two rows of the overview: how messages move, and what became of those that failed."""

from parts import BAD_FROM_ONE, GOOD_FROM_ONE, WARN_FROM_ONE, Row, now, panel, rate

DELIVERY = Row(
    "Delivery",
    (
        panel(
            "Lag",
            "How old the message handled last was, while others wait.",
            "s",
            (now("router_consumer_lag_seconds", "max", "consumer"), "{{consumer}}"),
        ),
        panel(
            "Backlog",
            "Stored and not yet delivered, as the server counts.",
            "short",
            (now("router_delivery_pending", "max", "consumer"), "{{consumer}}"),
        ),
        panel(
            "In flight",
            "Being handled or settled; at the prefetch it can take no more.",
            "short",
            (now("router_delivery_in_flight", "sum", "consumer"), "{{consumer}}"),
        ),
        panel(
            "Acknowledged",
            "Messages whose last word is said.",
            "reqps",
            (rate("router_jetstream_ack_total", "consumer"), "{{consumer}}"),
        ),
        panel(
            "Sent back",
            (
                "Redeliveries by reason: nak is a failed handler, timeout a silence, tenant "
                "one that is not served, allowlist a subject."
            ),
            "reqps",
            (rate("router_redelivery_total", "consumer, reason"), "{{consumer}} {{reason}}"),
        ),
        panel(
            "Waiting for another try",
            "Delivered more than once, and not acknowledged yet.",
            "short",
            (now("router_delivery_redelivered", "max", "consumer"), "{{consumer}}"),
        ),
        panel(
            "Overloaded",
            (
                "A line at 1 is a router with more decide requests than it can answer in time: "
                "it shares itself among the tenants that ask."
            ),
            "short",
            (now("router_overloaded", "max"), "overloaded"),
            kind="states",
            steps=WARN_FROM_ONE,
        ),
        panel(
            "Live requests",
            (
                "While overloaded: answered at once, refused as above their tenant's share, or "
                "left to the stored copy."
            ),
            "reqps",
            (rate("router_live_requests_total", "outcome"), "{{outcome}}"),
            kind="stacked",
        ),
        panel(
            "Consumers paused",
            "A line at 1 is a consumer that can store nothing and pulls nothing.",
            "short",
            (now("router_consumer_paused", "max", "consumer"), "{{consumer}}"),
            kind="states",
            steps=BAD_FROM_ONE,
        ),
        panel(
            "Partitions: waiting requests",
            "Stored in a partition's stream and not yet delivered.",
            "short",
            (now("router_partition_pending", "max", "partition"), "{{partition}}"),
        ),
        panel(
            "Partitions: routers",
            (
                "Routers that take a partition's requests or stand by for it. Below two, the "
                "partition stops with its router."
            ),
            "short",
            (now("router_partition_routers", "sum", "partition, state"), "{{partition}} {{state}}"),
        ),
        panel(
            "Partitions attended",
            "A line at 0 is a partition whose lease no router renews: its requests wait.",
            "short",
            (now("router_partition_attended", "min", "partition"), "{{partition}}"),
            kind="states",
            steps=GOOD_FROM_ONE,
        ),
        panel(
            "Waiting for room",
            "Messages whose effects a full stream refuses; the consumer's other messages go on.",
            "short",
            (now("router_storage_waiting", "sum", "consumer"), "{{consumer}}"),
        ),
        panel(
            "Waiting for a bucket, and copies missing",
            (
                "Messages that need an unavailable bucket, the others go on; and copies of "
                "streams that are offline or behind."
            ),
            "short",
            (now("router_bucket_waiting", "sum", "consumer"), "{{consumer}}"),
            (now("router_stream_copies_missing", "max", "stream"), "{{stream}} copies missing"),
        ),
        panel(
            "Refused for want of room, and dropped unread",
            (
                "What became of messages whose effects found no room; and what a stream "
                "dropped before it was read, which must be 0."
            ),
            "reqps",
            (rate("router_storage_refused_total", "consumer, what"), "{{consumer}} {{what}}"),
            (rate("router_unread_dropped_total", "consumer"), "{{consumer}} dropped unread"),
        ),
    ),
)

FAILED = Row(
    "What failed",
    (
        panel(
            "Dead letters stored",
            (
                "validation_failed is a sender's mistake, maxdeliver_exhausted and "
                "processing_error are a handler's."
            ),
            "reqps",
            (rate("router_dlq_total", "subject, reason"), "{{subject}} {{reason}}"),
        ),
        panel(
            "Dead letters standing",
            "They are kept for 30 days; `router dlq list` reads them.",
            "short",
            (now("router_dlq_depth", "max", "subject, reason"), "{{subject}} {{reason}}"),
        ),
        panel(
            "Letters that failed, and replays",
            (
                "Letters that could not be stored, messages given up without one, and messages "
                "that came back by a replay."
            ),
            "reqps",
            (rate("router_dlq_publish_failures_total"), "not stored"),
            (rate("router_dlq_disabled_total"), "without a dead letter"),
            (rate("router_dlq_over_share_total"), "without payload"),
            (rate("router_dlq_replayed_total"), "replayed"),
        ),
        panel(
            "Contract violations",
            "Header rules that were broken, by tenant and rule. Ten messages on one "
            "subject in a minute are an alert. Who and which:"
            " router contract violations --since 1h --by tenant,subject,rule",
            "reqps",
            (
                rate("router_nats_contract_violations_total", "tenant, header, rule"),
                "{{tenant}} {{header}} {{rule}}",
            ),
            (
                rate("router_nats_contract_violating_messages_total", "subject"),
                "messages on {{subject}}",
            ),
            (rate("router_contract_events_lost_total"), "without an event"),
        ),
        panel(
            "Refused addresses and keys",
            (
                "Subjects outside the allow list, reply addresses outside the prefixes, "
                "operators' requests without a valid api_key."
            ),
            "reqps",
            (rate("router_subject_refused_total"), "subjects"),
            (rate("router_reply_refused_total"), "reply addresses"),
            (rate("router_admin_keys_refused_total"), "keys"),
        ),
    ),
)
