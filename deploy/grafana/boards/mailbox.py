"""The outbox, the inbox and the agents, from their own processes."""

from parts import BAD_FROM_ONE, Board, Row, now, panel, rate

BOARD = Board(
    "router-mailbox",
    "Router: mailbox and agents",
    "Events published from a database, events handled once, agents at work.",
    (
        Row(
            "The four golden signals",
            (
                panel(
                    "Traffic",
                    "Events published by relays, handled by inboxes, applied by agents.",
                    "reqps",
                    (rate("router_outbox_published_total"), "published"),
                    (rate("router_inbox_handled_total", "", 'code="processed"'), "handled"),
                    (rate("router_agent_applied_total"), "applied"),
                ),
                panel(
                    "Errors",
                    "Tried again, in the dead letters, parked.",
                    "short",
                    (
                        rate("router_inbox_handled_total", "", 'code="transient"'),
                        "inbox: comes again, a second",
                    ),
                    (rate("router_agent_dead_total"), "agents: dead letters a second"),
                    (now("router_outbox_parked", "sum"), "outbox: parked"),
                ),
                panel(
                    "Latency: the oldest that waits",
                    (
                        "Age of the oldest event that is not published, and of the oldest "
                        "message that is not processed."
                    ),
                    "s",
                    (now("router_outbox_oldest_seconds", "max", "context"), "outbox {{context}}"),
                    (now("router_inbox_oldest_seconds", "max", "context"), "inbox {{context}}"),
                ),
                panel(
                    "Saturation: what waits",
                    "Rows that are not published, and rows that are not processed.",
                    "short",
                    (now("router_outbox_backlog", "max", "context"), "outbox {{context}}"),
                    (now("router_inbox_backlog", "max", "context"), "inbox {{context}}"),
                ),
            ),
        ),
        Row(
            "Outbox",
            (
                panel(
                    "Published by type",
                    "Which events leave.",
                    "reqps",
                    (rate("router_outbox_published_total", "event_type"), "{{event_type}}"),
                ),
                panel(
                    "Parked",
                    (
                        "Refused by the stream too often; those behind them of the same order "
                        "wait. `router outbox parked` lists them."
                    ),
                    "short",
                    (now("router_outbox_parked", "max", "context"), "{{context}}"),
                ),
                panel(
                    "Published again",
                    "The broker had acknowledged them and lost them.",
                    "short",
                    (now("router_outbox_taken_back", "sum", "context"), "{{context}}"),
                ),
                panel(
                    "Paused",
                    "The broker or the database is away.",
                    "short",
                    (now("router_outbox_paused", "max", "context"), "{{context}}"),
                    kind="states",
                    steps=BAD_FROM_ONE,
                ),
            ),
        ),
        Row(
            "Inbox",
            (
                panel(
                    "Handled by how it ended",
                    (
                        "processed; duplicate; transient, redelivered; stranded, given up by "
                        "the server; else a dead letter's reason."
                    ),
                    "reqps",
                    (rate("router_inbox_handled_total", "code"), "{{code}}"),
                    kind="stacked",
                ),
                panel(
                    "Paused",
                    "Its database or its handler is away; no delivery is spent.",
                    "short",
                    (now("router_inbox_paused", "max", "consumer"), "{{consumer}}"),
                    kind="states",
                    steps=BAD_FROM_ONE,
                ),
            ),
        ),
        Row(
            "Agents",
            (
                panel(
                    "Applied",
                    "Acknowledged, duplicates included.",
                    "reqps",
                    (rate("router_agent_applied_total", "agent"), "{{agent}}"),
                ),
                panel(
                    "Duplicates",
                    "Messages that were applied before.",
                    "reqps",
                    (rate("router_agent_duplicates_total", "agent"), "{{agent}}"),
                ),
                panel(
                    "Dead letters",
                    "All of them, and those begun as often as allowed.",
                    "reqps",
                    (rate("router_agent_dead_total", "agent"), "{{agent}}"),
                    (rate("router_agent_given_up_total", "agent"), "{{agent}} at its limit"),
                ),
                panel(
                    "The safety net",
                    (
                        "Messages that the server had given up, fetched and handled: a crash "
                        "loop, or an ack wait that is too short."
                    ),
                    "reqps",
                    (rate("router_agent_rescued_total", "agent"), "{{agent}}"),
                ),
                panel(
                    "The store",
                    "What it takes on its disk: it keeps each key that the agent was ever told.",
                    "bytes",
                    (now("router_agent_store_bytes", "max", "agent"), "{{agent}}"),
                ),
            ),
        ),
        Row(
            "Helpers",
            (
                panel(
                    "Failing helpers",
                    "Figures, retention, scans: the process works on without them.",
                    "short",
                    (
                        now("router_helper_failing", "max", "instance, helper"),
                        "{{instance}} {{helper}}",
                    ),
                    kind="states",
                    steps=BAD_FROM_ONE,
                ),
            ),
        ),
    ),
)
