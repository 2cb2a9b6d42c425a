"""SDS-047: one context's database, its event stream, its relay; and its inbox
(docs/reference/requirements.md#sd-28).

The inbox says whose events it takes, how long they may fail, who is told
(docs/reference/requirements.md#sd-31). Its database is the context's. What is not said follows from
`inbox.source`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from router.core.setting_values import Count, Group, Millis, Name, OptionalMillis, Schedule, Text
from router.delivery.settings import DAY_MS, Secret

Context = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
OptionalName = Annotated[Name | None, BeforeValidator(lambda value: value or None)]
SchemaName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]
Token = Annotated[
    Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None,
    BeforeValidator(lambda value: value or None),
]


class EventsConfig(Group):
    """The stream of the context's events (docs/reference/requirements.md#sd-29)."""

    stream: OptionalName = Field(default=None, description="its name; default {CONTEXT}_EVENTS")
    max_age_ms: Millis = Field(
        default=7 * DAY_MS, description="events older than this are dropped, milliseconds"
    )
    max_bytes: int = Field(
        default=10 * 1024**3,
        ge=-1,
        description="the stream holds at most this many bytes; -1 = no limit",
    )
    duplicate_window_ms: int = Field(
        default=3_600_000,
        ge=100,
        description="an event is recognised this long; longer than any relay is down, milliseconds",
    )
    replicas: int = Field(default=1, ge=1, le=5, description="copies in a cluster; 3 in production")


class RelayConfig(Group):
    """The relay of the outbox. Several may run."""

    round: int = Field(
        default=8_000, ge=1, le=20_000, description="rows that one transaction claims"
    )
    partitions: int = Field(
        default=8,
        ge=1,
        le=8,
        description=(
            "of the outbox's eight partitions, one relay takes so many: 8 = the others stand "
            "by, 4 = two share"
        ),
    )
    attempts: Count = Field(
        default=10, description="a row that the stream refuses so often is parked"
    )
    backoff_ms: Schedule = Field(
        default=(1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 60_000),
        description="between its attempts, the last repeats, milliseconds",
    )
    poll_least_ms: Millis = Field(
        default=5, description="the shortest wait for new rows, milliseconds"
    )
    poll_most_ms: Millis = Field(
        default=500, description="the longest, after a while without any, milliseconds"
    )
    atomic: bool = Field(
        default=True, description="publish in atomic batches where the server knows them (2.12)"
    )
    listen: bool = Field(
        default=False,
        description="wait for NOTIFY instead of polling faster; services add events with wake=True",
    )
    keep_ms: Millis = Field(
        default=7 * DAY_MS, description="published rows stay this long, milliseconds"
    )


class MailboxConfig(Group):
    """One context (docs/reference/requirements.md#sd-28)."""

    context: Context = Field(
        default="sea", description="whose events: the first token of their subjects"
    )
    dsn: Secret = Field(
        default=None, description="its database, like postgresql://user:password@host:5432/database"
    )
    db_schema: SchemaName = Field(default="public", description="the schema of its tables")
    connections: int = Field(default=4, ge=1, le=64, description="connections to the database")
    events: EventsConfig = EventsConfig()
    relay: RelayConfig = RelayConfig()

    @property
    def events_stream(self) -> str:
        return self.events.stream or f"{self.context.upper()}_EVENTS"


class HandlerConfig(Group):
    """The service that is told of events, and when it is left alone."""

    url: Text = Field(default=None, description="its address, like http://127.0.0.1:8000/handle")
    timeout_ms: Millis = Field(
        default=30_000, description="no answer within this time is a failure, milliseconds"
    )
    failures: Count = Field(
        default=5, description="so many failed calls in a row, and it is left alone"
    )
    error_rate_threshold: float = Field(
        default=0.5, gt=0, le=1, description="or this share of failed calls, and it is left alone"
    )
    error_rate_window_ms: Millis = Field(
        default=60_000,
        le=3_600_000,
        description="the share is counted over this span, milliseconds",
    )
    minimum_calls: int = Field(
        default=10,
        ge=1,
        le=1_000_000,
        description="the share counts from so many calls in the span on",
    )
    rest_ms: Millis = Field(
        default=10_000,
        description="for this long; then three calls at once try, two successes end it, milliseconds",
    )


class InboxConfig(Group):
    """One durable, one pair of tables."""

    source: Context = Field(
        default="vibespro", description="whose events: the first token of their subjects"
    )
    stream: Token = Field(default=None, description="where they stand; default {SOURCE}_EVENTS")
    durable: Token = Field(
        default=None, description="the consumer; default {context}__from_{source}"
    )
    filter_subject: Text = Field(
        default=None, description="which of them, wildcards allowed; default {source}.event.>"
    )
    ack_wait_ms: Millis = Field(
        default=120_000,
        description=(
            "after this silence a message is delivered again, milliseconds; so long stands a "
            "killed inbox still"
        ),
    )
    max_deliver: Count = Field(
        default=20, description="deliveries of one message; after the last a dead letter"
    )
    max_ack_pending: Count = Field(default=50, description="messages in flight at once")
    nak_after_ms: OptionalMillis = Field(
        default=None,
        description=(
            "ask for a failed message again after this time, milliseconds; unset: the ack wait "
            "speaks (POL-047-007)"
        ),
    )
    sweep_ms: Millis = Field(
        default=60_000, description="between two scans for rows that are not settled, milliseconds"
    )
    stranded_after_ms: Millis = Field(
        default=3_600_000,
        description=(
            "a row this old is looked after; longer than all deliveries of one message, "
            "milliseconds"
        ),
    )
    keep_ms: Millis = Field(
        default=30 * DAY_MS,
        description=(
            "processed rows stay this long, and never shorter than the stream keeps their "
            "events, milliseconds"
        ),
    )
    handler: HandlerConfig = HandlerConfig()

    @property
    def nak_after_s(self) -> float | None:
        return self.nak_after_ms / 1000 if self.nak_after_ms is not None else None

    @property
    def events_stream(self) -> str:
        return self.stream or f"{self.source.upper()}_EVENTS"

    @property
    def events_filter(self) -> str:
        return self.filter_subject or f"{self.source}.event.>"

    def name_durable(self, context: str) -> str:
        return self.durable or f"{context}__from_{self.source}"
