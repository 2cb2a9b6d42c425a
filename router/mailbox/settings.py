"""SDS-047: one context's database, its event stream, its relay. An inbox has settings of its own
(`inbox_settings`).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from router.core.setting_values import Count, Group, Millis, Name, Schedule
from router.delivery.settings import Secret

Context = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
OptionalName = Annotated[Name | None, BeforeValidator(lambda value: value or None)]
SchemaName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]

DAY_MS = 86_400_000


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
