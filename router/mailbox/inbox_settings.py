"""The inbox of one context: whose events it takes, how long they may fail, who is told
(docs/reference/requirements.md#sd-31).

Its database is the context's, in `mailbox`. What is not said follows from `inbox.source`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from router.core.setting_values import Count, Group, Millis, OptionalMillis, Text
from router.mailbox.settings import DAY_MS, Context

Token = Annotated[
    Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None,
    BeforeValidator(lambda value: value or None),
]


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
